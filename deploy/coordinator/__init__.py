"""The jar for brokers: assignors of KIP-848 groups, in Java, and their build without a JDK.

The classes know Kafka's API for such assignors, and no other part of levelwind.
"""
