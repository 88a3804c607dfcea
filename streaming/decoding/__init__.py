"""Kafka's bytes to rows: offset commits, group metadata and levelwind's own records.

The package knows no state and no rule.
"""
