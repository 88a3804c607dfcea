"""Simulated worlds: the real control and the real members over a model of brokers and clocks."""
