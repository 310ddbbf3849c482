"""How each step of an evaluation works. Verb modules are steps, noun modules are things."""
