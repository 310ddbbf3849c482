"""Checklists: one image or figure against a list of questions with known answers."""
