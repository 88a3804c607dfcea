"""Kafka's own bytes of the consumer protocol; it knows no record of levelwind's."""
