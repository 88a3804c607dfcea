"""Views of groups, plans and dead letters for the commands; the daemon knows nothing of them."""
