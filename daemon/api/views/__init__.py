"""What the API shows, built from the records that the daemon reads; it knows nothing of HTTP."""
