"""The batches of the query: what Spark tells of each, and how far the query has come."""
