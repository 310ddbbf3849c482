"""Parts around the chain for Prefect: server, deployments, limits, shards, chunks, progress."""
