"""What a person sees of a run: the artifact in the Prefect UI, and the report, an HTML page that needs nothing else."""
