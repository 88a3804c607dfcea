"""Spark's Python workers: the process that they are forked from."""
