"""What Prefect needs around the chain: server, deployments, limits, shards, chunks, progress."""
