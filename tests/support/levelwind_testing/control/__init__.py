"""Transcripts of the control."""
