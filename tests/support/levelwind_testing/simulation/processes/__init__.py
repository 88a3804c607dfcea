"""Processes over the modelled brokers: the daemon and the consumers, with their real cores."""
