"""Reads and writes levelwind's topics; it knows records and clients, but no decision."""
