"""What a release promises to the next one: its corpus in tests/data, and its wheel."""
