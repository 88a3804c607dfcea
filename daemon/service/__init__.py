"""The daemon's loop: it performs what the control decides and serves metrics. Only the command line imports it."""
