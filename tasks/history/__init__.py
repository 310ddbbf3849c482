"""The history: DuckDB tables and views, loaded from ledgers and asked. The only package that knows DuckDB."""
