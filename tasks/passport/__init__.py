"""Passport of a judge, a test of its vision and compliance: drawn pictures with known answers, and the card."""
