"""The decision about one group: whether it gets a plan, which one, and its fate."""
