"""Runs whose calls are bought as batches: what is handed in, what is known of it, and what comes back."""
