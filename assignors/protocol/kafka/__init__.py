"""Byte formats of Kafka's consumer protocol; the package knows none of levelwind's records."""
