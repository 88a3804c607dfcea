"""Strategies, one a module: pure functions of a group that know neither wire nor client."""
