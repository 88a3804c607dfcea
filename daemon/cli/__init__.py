"""The commands; each imports what it needs when it runs, so that `--help` waits for no library."""
