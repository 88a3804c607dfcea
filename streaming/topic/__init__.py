"""The state of one topic and its update by a batch.

The package is pure; it knows neither Spark nor the state of a group.
"""
