"""Following of the planner in a thread beside the application: the member's state, announced.

The package knows the member's machine and levelwind's topics, and not the application's consumer.
"""
