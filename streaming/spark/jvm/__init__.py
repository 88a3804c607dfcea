"""Spark's JVM: its command line and its start; knows nothing of the session and the query."""
