"""Workloads that show how soon a group is level again, on real brokers and in the simulation."""
