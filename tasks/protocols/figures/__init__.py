"""Pairwise figures: the Model's figure against the Human figure of the same paper (PaperBanana protocol)."""
