"""Prompt files: what stands in them, and how published documents become some."""
