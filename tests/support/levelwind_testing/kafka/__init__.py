"""Kafka's own classes and bytes as oracles."""
