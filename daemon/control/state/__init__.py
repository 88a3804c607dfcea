"""The state of the control: all groups, the deadline of each, and the backlog of plans."""
