"""Hand-over of partitions between members: pure state machines of planner and member.

The package knows the records of the protocol, and neither a Kafka client nor a strategy.
"""
