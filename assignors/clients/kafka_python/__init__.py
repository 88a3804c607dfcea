"""Assignors in the shape that kafka-python asks for."""
