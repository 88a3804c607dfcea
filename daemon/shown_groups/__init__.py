"""Groups as their records describe them, for commands, the API and the demo."""
