"""Gauges of groups for Prometheus, computed from facts about the control without any request."""
