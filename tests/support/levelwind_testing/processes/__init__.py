"""Processes that tests and benchmarks start."""
