"""What keeps planning available: the group of daemons, the pipeline's host, and readiness."""
