"""Moves and exchanges that better a working plan; each knows the model and its bounds, none the certificate."""
