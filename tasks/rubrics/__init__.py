"""Prompt files: their contents, and the import of published documents."""
