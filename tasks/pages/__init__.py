"""Output of a run for people: the artifact in the Prefect UI, and the report, one self-contained HTML page."""
