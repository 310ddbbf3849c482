"""Integration with Prefect around the chain: server, deployments, limits, shards, chunks, progress."""
