"""Gauges of groups for Prometheus, computed from the control's state without any request."""
