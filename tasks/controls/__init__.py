"""Control samples: tests of whether the judge looks at the pictures."""
