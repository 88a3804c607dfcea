"""The state of one topic and its change by a batch.

The package is pure; it knows neither Spark nor the state of a group.
"""
