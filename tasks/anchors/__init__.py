"""Anchors: frozen samples that separate a change of the judge from one of the candidate."""
