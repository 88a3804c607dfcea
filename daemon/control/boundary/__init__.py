"""Events that the control takes in, and effects that it asks the daemon for: values without I/O."""
