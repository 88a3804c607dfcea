"""Commits without `__consumer_offsets`: coordinators are asked, and what changed is written.

Where nobody may read Kafka's own topic, as on managed services, the leading daemon asks the brokers
for their groups, members and committed offsets, and writes them to a topic of levelwind's in the
format of `__consumer_offsets`. The pipeline reads that as it reads the other. The package knows
neither groups' plans nor the control, and needs no Kafka client for what it asks: one request of
the protocol has the offsets of many groups, and a client would ask for each.
"""
