"""Shells of classic assignors in tests: what both clients have in common.

`kafka_python_shell` and `aiokafka_shell` have the same steps on structures of their own client:
metadata of a cluster, a leader's plan from the bytes of subscriptions, and a member's assignment.
"""

from __future__ import annotations

from typing import Any

from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerAssignment


class _Membership:
    def __init__(self, generation):
        self.generation = generation


class JoinedConsumer:
    """A consumer as an attached assignor sees it."""

    def __init__(self, generation=-1):
        self._coordinator: Any = _Membership(generation)
        self._coordinator.request_rejoin = lambda: self.requests.append(1)
        self.requests: list[int] = []


_consumers: list[JoinedConsumer] = []


def joined(generation):
    consumer = JoinedConsumer(generation)
    _consumers.append(consumer)  # an assignor holds its consumer weakly
    return consumer


def partitions_in(raw):
    """Partitions by topic in the bytes of an assignment."""
    return {topic: list(held) for topic, held in ConsumerAssignment.decode(raw).partitions.items()}
