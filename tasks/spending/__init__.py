"""Prices, bills, estimates and budgets."""
