"""The kinds of judging: all in which pairwise figures and rubrics for generated images differ."""
