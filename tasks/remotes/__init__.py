"""Stores in a bucket."""
