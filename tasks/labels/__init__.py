"""Labels that people gave, and how far judges and people agree."""
