"""State of a run while it is judged, in memory."""
