"""The batches of the query: what Spark tells of each, and when the next one begins."""
