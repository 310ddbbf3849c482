"""Comparison of runs: comparable ones, changes between them, and drops in their scores."""
