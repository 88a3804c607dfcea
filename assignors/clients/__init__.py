"""Clients of the assignments: consumers that follow them, and adapters for classic groups.

Each Kafka client has a package or module of its own, which alone imports that client.
"""
