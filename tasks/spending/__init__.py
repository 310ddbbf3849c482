"""What judging costs: prices, what is to be expected of calls that are still to be made, and how much they may cost."""
