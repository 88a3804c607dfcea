"""Reading of a group's assignments, and proof of how fresh the reading is.

The package knows the assignments topic and the member's events, and not the application's consumer.
"""
