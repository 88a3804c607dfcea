"""Commits of one consumer: what may be committed, how, and when a commit can no longer arrive.

The package does not know who owns what; it is given the grants.
"""
