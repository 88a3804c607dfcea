"""Shared parts of the tests: oracles, random problems, record builders and processes."""
