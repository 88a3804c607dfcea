"""Offsets that are asked for in several calls, and answers that come one after the other."""

from collections import deque
from concurrent.futures import Future

from confluent_kafka import TopicPartition

from levelwind.daemon.kafka import clients

TIMEOUT = 10.0


class SlowlyAnswering:
    """An admin client that, as confluent-kafka's, looks up each future when it has its answer.

    One answer comes with each call, and each other one when the test says so.
    """

    def __init__(self):
        self._waiting = deque()

    def list_offsets(self, specs, **_):
        futures = {partition: Future() for partition in specs}
        self._waiting.extend((futures, partition) for partition in specs)
        self.answer_one()
        return futures

    def answer_one(self):
        if self._waiting:
            futures, partition = self._waiting.popleft()
            futures[partition].set_result(partition.partition)


def test_every_future_is_answered_though_the_first_ones_are_taken_before_the_last(monkeypatch):
    monkeypatch.setattr(clients, "PARTITIONS_PER_REQUEST", 20)
    specs = {TopicPartition("t", number): None for number in range(120)}
    client = SlowlyAnswering()
    taken = []
    for partition, answer in clients.list_offsets(client, specs, None, TIMEOUT):
        taken.append((partition.partition, answer.result(TIMEOUT)))
        client.answer_one()
    assert taken == [(number, number) for number in range(120)]
