"""Control samples: whether the judge looks at what it is shown."""
