"""Access to the API: hosts, sizes, headers and tokens; it knows nothing of what is shown."""
