"""The streaming query, its checkpoint and its health: the only package that knows Spark."""
