"""Forgetting: removal of all data of a run, a candidate or a sample from a store."""
