"""Forgetting: what a run, a candidate or a sample left in a store, found and removed."""
