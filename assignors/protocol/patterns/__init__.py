"""Patterns of topic names, matched in linear time: members write them, and may mean ill.

The package knows the characters of topic names, and no record.
"""
