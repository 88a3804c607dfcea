"""Simulation of a fleet under several strategies; pure: it knows no Kafka, Spark or clock."""
