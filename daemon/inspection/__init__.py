"""What the commands show of groups, plans and dead letters; it never decides and the daemon runs without it."""
