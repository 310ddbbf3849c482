"""Flows, a thin module each, their common chain (`pipeline`), and the `jury` command."""
