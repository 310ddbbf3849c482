"""What judging costs: prices, and what is to be expected of calls that are still to be made."""
