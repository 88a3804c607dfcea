"""Steady traffic into the topics of a chaos run, which never loses or repeats a record."""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from levelwind_testing.chaos.journal import Partition
from levelwind_testing.kafka.each_broker import await_topics

PARTITIONS_A_REQUEST = 10_000
"""The most that brokers make at a time."""
PATIENCE_SECONDS = 300


class SteadyProducer:
    """Writes to every partition of some topics at an even rate, from a thread of its own."""

    def __init__(self, bootstrap: str, topics: list[str], partitions: int, rate: float) -> None:
        self.sent = 0
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": PATIENCE_SECONDS * 1000,
                "log_level": 0,
            }
        )
        self._targets = [(topic, number) for topic in topics for number in range(partitions)]
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and wait until every record is acknowledged.

        Raises:
            RuntimeError: a record was not acknowledged.
        """
        self._stop.set()
        self._thread.join()
        self._flush()

    def write_one_more(self, partitions: Iterable[Partition]) -> None:
        """Write one record to each of some partitions: its commit repeats one that failed.

        Raises:
            RuntimeError: a record was not acknowledged.
        """
        for topic, number in partitions:
            self._send(topic, number)
        self._flush()

    def _flush(self) -> None:
        left = self._producer.flush(PATIENCE_SECONDS)
        if left or self.failures:
            raise RuntimeError(f"{left} records were not acknowledged: {self.failures[:3]}")

    def _run(self) -> None:
        begun = time.monotonic()
        while not self._stop.wait(0.05):
            due = int((time.monotonic() - begun) * self._rate)
            while self.sent < due:
                self._send(*self._targets[self.sent % len(self._targets)])
            self._producer.poll(0)

    def _send(self, topic: str, number: int) -> None:
        self._producer.produce(topic, b"x", partition=number, on_delivery=self._acknowledged)
        self.sent += 1

    def _acknowledged(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures.append(str(error))


def create_topics(bootstrap: str, topics: list[str], partitions: int, *, replicas: int = 3) -> None:
    """Create topics, and wait until each broker knows them."""
    client = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(client)
    config = {"min.insync.replicas": str(min(replicas, 2))}
    first = min(partitions, PARTITIONS_A_REQUEST)
    new = [NewTopic(topic, first, replicas, config=config) for topic in topics]
    _await_made(admin.create_topics(new))
    while first < partitions:
        first = min(partitions, first + PARTITIONS_A_REQUEST)
        more = [NewPartitions(topic, first) for topic in topics]
        _await_made(admin.create_partitions(more, request_timeout=120))
    await_topics(client, *topics)


def _await_made(made: Mapping[str, Any]) -> None:
    for name, future in made.items():
        try:
            future.result(120)
        except KafkaException as error:
            raise RuntimeError(f"{name} was not created: {error.args[0].str()}") from error
