"""The control plane: observer, control, publisher and the command line."""
