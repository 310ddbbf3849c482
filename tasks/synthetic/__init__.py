"""How the drawn samples come to look: the words, the canvas, the figures and what is put wrong in them."""
