"""What the rows of a run come to: scores, rates, intervals, tests."""
