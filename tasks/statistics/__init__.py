"""Statistics over the rows of a run: scores, rates, intervals, tests."""
