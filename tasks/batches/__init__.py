"""Runs whose calls are bought as batches, on a store that is a folder of one machine."""
