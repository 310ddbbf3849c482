"""What a judge's reply says."""
