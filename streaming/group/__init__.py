"""The state of one group and its update by a batch: pure, without Spark and the topics' state."""
