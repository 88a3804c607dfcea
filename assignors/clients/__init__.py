"""Consumers that follow a published assignment, one module for each Kafka client."""
