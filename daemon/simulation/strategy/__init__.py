"""One strategy at work in a simulation: its run, the control of its group, and what that knows."""
