"""A third, tiny kind of judging, as its users would write it: is a statement about a picture true?

Its flow is `presence`. The judge answers yes or no to each question of the rubric; a sample scores the share of yes.
"""
