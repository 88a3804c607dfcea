"""Strategies as `partition_assignment_strategy` of aiokafka's `AIOKafkaConsumer`.

    from aiokafka import AIOKafkaConsumer
    from levelwind.clients.aiokafka import StickyAssignor

    assignor = StickyAssignor(rack="a")
    consumer = AIOKafkaConsumer("orders", group_id="billing", client_rack="a",
                                partition_assignment_strategy=[assignor])
    assignor.attach(consumer)
    await consumer.start()

A class works in place of an instance, with its defaults. An instance belongs to one consumer.
`attach` lets the assignor ask for rebalances and know the group's generation. aiokafka gives up all
partitions before it joins, so there is no `CooperativeStickyAssignor`. Installed with
`levelwind[aiokafka]`.
"""

from levelwind.assignors.clients.aiokafka.aiokafka_adapter import for_aiokafka
from levelwind.assignors.clients.classic import published_assignor, strategy_classes

__all__ = [
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

FailoverAssignor = for_aiokafka(strategy_classes.FailoverAssignor)
FairAssignor = for_aiokafka(strategy_classes.FairAssignor)
LagAssignor = for_aiokafka(strategy_classes.LagAssignor)
LagGlobalAssignor = for_aiokafka(strategy_classes.LagGlobalAssignor)
OptimalAssignor = for_aiokafka(strategy_classes.OptimalAssignor)
PublishedAssignor = for_aiokafka(published_assignor.PublishedAssignor)
RangeAssignor = for_aiokafka(strategy_classes.RangeAssignor)
RoundRobinAssignor = for_aiokafka(strategy_classes.RoundRobinAssignor)
ServerRangeAssignor = for_aiokafka(strategy_classes.ServerRangeAssignor)
StickyAssignor = for_aiokafka(strategy_classes.StickyAssignor)
TopicRoundRobinAssignor = for_aiokafka(strategy_classes.TopicRoundRobinAssignor)
UniformAssignor = for_aiokafka(strategy_classes.UniformAssignor)
