"""Random and exhaustive problems, and mutations of assignments."""
