"""The drawn samples: datasets with known defects, their words and figures, and what draws them."""
