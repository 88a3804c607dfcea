"""The configuration, read once and handed out in slices; it starts nothing and talks to no cluster."""
