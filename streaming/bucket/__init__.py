"""The state of a bucket of groups in columns, and its update by a batch: pure, without Spark."""
