"""A third, tiny kind of judging, as users would write it: the truth of a statement about a picture.

Its flow is `presence`. The judge answers each question of the rubric by yes or no; the score is the share of yes.
"""
