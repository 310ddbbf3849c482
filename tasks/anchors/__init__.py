"""Anchors: frozen samples that tell a change of the judge from one of the candidate."""
