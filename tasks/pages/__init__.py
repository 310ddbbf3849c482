"""The report: one HTML page that holds evaluations with their numbers, pictures and reasons, and needs nothing else."""
