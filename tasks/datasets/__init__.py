"""Readers of datasets in all supported formats."""
