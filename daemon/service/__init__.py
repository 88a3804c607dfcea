"""The daemon's loop performs what the control decides; only the command line imports it."""
