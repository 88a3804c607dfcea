"""The commands. What one needs is imported when it runs: `levelwind assign` must not wait for Spark's or Kafka's libraries."""
