"""The writer of the metadata topic when its producer fails."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.observer.cluster_probe import UnansweredError
from levelwind.daemon.observer.metadata_topic import MetadataTopic
from levelwind_testing.kafka.failed_producer import FailedProducer
from levelwind_testing.records import offsets


def test_a_producer_that_failed_for_good_is_replaced_before_the_next_samples(log):
    topic = MetadataTopic({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, Topics("lw."), log)
    topic._producer = failed = FailedProducer()
    with pytest.raises(UnansweredError, match="sequence desynchronization"):
        topic.offer([])
    assert topic._producer is not failed
    assert log.names == ["observer.producer_renewed"]
    topic.offer([])


class LosingProducer:
    """A producer that loses its first message, and reports the outcome of each at the next poll."""

    def __init__(self):
        self.outcomes = [KafkaError(KafkaError._MSG_TIMED_OUT)]
        self.reports = []

    def list_topics(self, name, **_):
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0: None})})

    def produce(self, *_arguments, on_delivery, **_options):
        error = self.outcomes.pop() if self.outcomes else None
        self.reports.append(lambda: on_delivery(error, None))

    def poll(self, _timeout):
        while self.reports:
            self.reports.pop(0)()


def test_a_lost_sample_makes_one_tick_fail_and_no_later_one(log):
    topic = MetadataTopic({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, Topics("lw."), log)
    topic._producer = LosingProducer()

    def failure():
        try:
            topic.offer([offsets("t", [3], at=1)])
        except UnansweredError as error:
            return str(error).partition(":")[0]
        return None

    assert [failure() for _ in range(4)] == [None, "a sample was not published", None, None]
