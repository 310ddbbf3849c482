"""Runs whose calls are bought as batches, with a folder of one machine as their store."""
