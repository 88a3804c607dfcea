"""Kafka's own protocol as far as members of groups need it, without a Kafka client.

No client of the daemon lets an application see and answer JoinGroup: librdkafka keeps it inside.
The package knows neither groups' plans nor the control.
"""
