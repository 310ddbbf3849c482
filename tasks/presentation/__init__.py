"""Presentation of results: sentences, tables, charts, Markdown."""
