"""When each group is looked at next, and in which order plans are made; it computes none itself."""
