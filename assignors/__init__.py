"""Partition assignment for Kafka consumer groups: the problem, the strategies, their score and their invariants."""
