"""What can be measured in a picture, and what the embedded judge makes of it."""
