"""Generated images: one image against its prompt, by the rubric of the prompt's GenEval tag."""
