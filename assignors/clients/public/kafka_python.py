"""Strategies as `partition_assignment_strategy` of kafka-python's `KafkaConsumer`.

    from kafka import KafkaConsumer
    from levelwind.clients.kafka_python import StickyAssignor

    assignor = StickyAssignor(rack="a")
    consumer = KafkaConsumer("orders", group_id="billing", client_rack="a",
                             partition_assignment_strategy=[assignor])
    assignor.attach(consumer)

A class works in place of an instance, with its defaults. An instance belongs to one consumer.
`attach` lets the assignor ask for rebalances. Installed with `levelwind[kafka-python]`.
"""

from levelwind.assignors.clients.classic import published_assignor, strategy_classes
from levelwind.assignors.clients.kafka_python.kafka_python_adapter import for_kafka_python

__all__ = [
    "CooperativePublishedAssignor",
    "CooperativeStickyAssignor",
    "FailoverAssignor",
    "FairAssignor",
    "LagAssignor",
    "LagGlobalAssignor",
    "OptimalAssignor",
    "PublishedAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "ServerRangeAssignor",
    "StickyAssignor",
    "TopicRoundRobinAssignor",
    "UniformAssignor",
]

CooperativePublishedAssignor = for_kafka_python(published_assignor.CooperativePublishedAssignor)
CooperativeStickyAssignor = for_kafka_python(strategy_classes.CooperativeStickyAssignor)
FailoverAssignor = for_kafka_python(strategy_classes.FailoverAssignor)
FairAssignor = for_kafka_python(strategy_classes.FairAssignor)
LagAssignor = for_kafka_python(strategy_classes.LagAssignor)
LagGlobalAssignor = for_kafka_python(strategy_classes.LagGlobalAssignor)
OptimalAssignor = for_kafka_python(strategy_classes.OptimalAssignor)
PublishedAssignor = for_kafka_python(published_assignor.PublishedAssignor)
RangeAssignor = for_kafka_python(strategy_classes.RangeAssignor)
RoundRobinAssignor = for_kafka_python(strategy_classes.RoundRobinAssignor)
ServerRangeAssignor = for_kafka_python(strategy_classes.ServerRangeAssignor)
StickyAssignor = for_kafka_python(strategy_classes.StickyAssignor)
TopicRoundRobinAssignor = for_kafka_python(strategy_classes.TopicRoundRobinAssignor)
UniformAssignor = for_kafka_python(strategy_classes.UniformAssignor)
