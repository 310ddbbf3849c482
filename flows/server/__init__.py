"""Servers of Prefect and of pages, their deployments and their supervision: `jury up` and what runs need of it."""
