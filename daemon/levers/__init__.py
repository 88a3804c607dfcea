"""Operators' orders, the same for the command line and the API: checked, previewed, and written."""
