"""The history: DuckDB tables and views, loaded from ledgers and queried. Only this package uses DuckDB."""
