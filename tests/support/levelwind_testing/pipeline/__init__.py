"""Builders of offset and group records, and a pipeline without Spark."""
