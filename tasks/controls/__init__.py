"""Control samples and unlike pictures: whether the judge looks at what it is shown."""
