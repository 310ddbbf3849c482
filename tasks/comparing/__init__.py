"""Runs beside runs: which compare, what changed, whether it got worse."""
