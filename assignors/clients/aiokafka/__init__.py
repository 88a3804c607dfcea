"""Assignors in the shape that aiokafka asks for."""
