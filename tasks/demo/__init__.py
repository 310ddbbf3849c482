"""Drawn samples with known defects, and the embedded judge that measures their pixels."""
