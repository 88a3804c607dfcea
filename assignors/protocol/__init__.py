"""Wire formats: levelwind's records, and the parts of Kafka's that a planner needs.

The package knows no Kafka client, no strategy and neither side of the hand-over.
"""
