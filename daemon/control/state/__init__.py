"""The state of the control: all groups, when each is looked at next, and what waits for a plan."""
