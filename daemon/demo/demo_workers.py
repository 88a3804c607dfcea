"""The consumers of the demo: one group that follows levelwind, one that Kafka's assignor divides.

Both groups read the same topics with the same loop, at the same limited speed.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import AbstractContextManager, closing
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import Consumer

from levelwind.assignors.clients.confluent.consumer import ManagedConsumer
from levelwind.daemon.demo.workload import RACKS, TOPICS, WorkloadThread
from levelwind.daemon.wall_clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import TopicPartition

    from levelwind.daemon.demo.workload import Traffic

GROUP = "orders"
"""The group that follows levelwind's assignments."""
KAFKA_GROUP = "orders-kafka"
"""The group with Kafka's own assignor."""
KAFKA_ASSIGNOR = "cooperative-sticky"
DELAY_WINDOW_SECONDS = 10.0
"""Seconds over which the delay of records is judged."""

OnChange: TypeAlias = "Callable[[str, str, list[tuple[str, int]]], None]"
"""Called with a worker's name, what it did, and the partitions."""


class GroupWorker(WorkloadThread):
    """A consumer of limited speed, and what it owns."""

    def __init__(
        self, client: Mapping[str, Any], name: str, rack: str, traffic: Traffic, changed: OnChange
    ) -> None:
        super().__init__(name)
        self.rack = rack
        # librdkafka writes to the terminal by default.
        self._client = {
            **client,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "log_level": 0,
        }
        self._traffic = traffic
        self._changed = changed
        self.owned: frozenset[tuple[str, int]] = frozenset()
        self._delays: deque[tuple[float, float]] = deque()

    def recent_delays(self) -> list[float]:
        """Seconds that each record of the last `DELAY_WINDOW_SECONDS` had waited."""
        since = time.monotonic() - DELAY_WINDOW_SECONDS
        return [delay for at, delay in list(self._delays) if at >= since]

    def _open(self) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def _work(self) -> None:
        batch = max(round(self._traffic.consumer_rate / 10), 1)
        with self._open() as consumer:
            while not self._stop.is_set():
                started = time.monotonic()
                records = [r for r in consumer.consume(batch, 0.1) if r.error() is None]
                self._note_delays(records)
                spent = time.monotonic() - started
                self._stop.wait(max(len(records) / self._traffic.consumer_rate - spent, 0))

    def _note_delays(self, records: Sequence[Any]) -> None:
        now, at = now_ms(), time.monotonic()
        self._delays.extend((at, (now - record.timestamp()[1]) / 1000) for record in records)
        while self._delays and self._delays[0][0] < at - DELAY_WINDOW_SECONDS:
            self._delays.popleft()

    def _on_assigned(self, _consumer: Any, partitions: list[TopicPartition]) -> None:
        pairs = [(partition.topic, partition.partition) for partition in partitions]
        self.owned |= frozenset(pairs)
        self._changed(self.name, "took over", pairs)

    def _on_revoked(self, _consumer: Any, partitions: list[TopicPartition]) -> None:
        pairs = [(partition.topic, partition.partition) for partition in partitions]
        self.owned -= frozenset(pairs)
        self._changed(self.name, "gave up", pairs)


class ManagedWorker(GroupWorker):
    """A consumer that follows levelwind's assignments."""

    def __init__(
        self,
        client: Mapping[str, Any],
        name: str,
        rack: str,
        traffic: Traffic,
        changed: OnChange,
        prefix: str,
    ) -> None:
        super().__init__(client, name, rack, traffic, changed)
        self._prefix = prefix

    def _open(self) -> AbstractContextManager[Any]:
        return ManagedConsumer(
            self._client,
            group=GROUP,
            topics=list(TOPICS),
            instance=self.name,
            rack=self.rack,
            prefix=self._prefix,
            on_assign=self._on_assigned,
            on_revoke=self._on_revoked,
            on_lost=self._on_revoked,
        )


class KafkaWorker(GroupWorker):
    """A consumer of a group that Kafka's own assignor divides."""

    def _open(self) -> AbstractContextManager[Any]:
        consumer = Consumer(
            {
                **self._client,
                "group.id": KAFKA_GROUP,
                "client.id": self.name,
                "client.rack": self.rack,
                "partition.assignment.strategy": KAFKA_ASSIGNOR,
            }
        )
        consumer.subscribe(
            list(TOPICS),
            on_assign=self._on_assigned,
            on_revoke=self._on_revoked,
            on_lost=self._on_revoked,
        )
        return closing(consumer)


def managed_workers(
    client: Mapping[str, Any], traffic: Traffic, prefix: str, changed: OnChange
) -> list[ManagedWorker]:
    """The consumers that follow levelwind, spread over the racks; not started yet."""
    return [
        ManagedWorker(client, f"worker-{number}", rack, traffic, changed, prefix)
        for number, rack in _racks(traffic)
    ]


def kafka_workers(
    client: Mapping[str, Any], traffic: Traffic, changed: OnChange
) -> list[KafkaWorker]:
    """As many consumers of Kafka's own group, in the same racks; not started yet."""
    return [
        KafkaWorker(client, f"kafka-{number}", rack, traffic, changed)
        for number, rack in _racks(traffic)
    ]


def _racks(traffic: Traffic) -> list[tuple[int, str]]:
    return list(enumerate(islice((RACKS[i % len(RACKS)] for i in count()), traffic.consumers)))
