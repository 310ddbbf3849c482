"""What is in memory while a run is judged."""
