"""Offsets that are asked for in several calls, and answers that come one after the other."""

import threading
import time
from concurrent.futures import Future

from confluent_kafka import TopicPartition

from daemon.kafka import clients

TIMEOUT = 10.0


class SlowlyAnswering:
    """An admin client that, as confluent-kafka's, looks up each future when it has its answer."""

    def list_offsets(self, specs, **_):
        futures = {partition: Future() for partition in specs}
        threading.Thread(target=self._answer, args=(futures, list(specs)), daemon=True).start()
        return futures

    def _answer(self, futures, partitions):
        for partition in partitions:
            time.sleep(0.001)
            futures[partition].set_result(partition.partition)


def test_every_future_is_answered_though_the_first_ones_are_taken_before_the_last(monkeypatch):
    monkeypatch.setattr(clients, "PARTITIONS_PER_REQUEST", 20)
    specs = {TopicPartition("t", number): None for number in range(120)}
    listed = clients.list_offsets(SlowlyAnswering(), specs, None, TIMEOUT)
    taken = [(partition.partition, answer.result(TIMEOUT)) for partition, answer in listed]
    assert taken == [(number, number) for number in range(120)]
