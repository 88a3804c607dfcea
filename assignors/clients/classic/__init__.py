"""Strategies as assignors of a classic group's member, whatever its Kafka client.

The package turns what a client gives (metadata of the cluster, subscriptions) into a problem, and
the answer of a strategy into the bytes of assignments. It imports no Kafka client: the shells
`levelwind.clients.kafka_python` and `levelwind.clients.aiokafka` do.
"""
