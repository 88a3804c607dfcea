"""The writer of the metadata topic when its producer fails."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.observer import metadata_topic as module
from levelwind.daemon.observer.cluster_probe import UnansweredError
from levelwind.daemon.observer.metadata_topic import MetadataTopic
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords
from levelwind_testing.kafka.failed_producer import FailedProducer
from levelwind_testing.records import offsets
from levelwind_testing.records import topic as layout


def metadata_topic(log, unwritten=None):
    client = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    return MetadataTopic(client, Topics("lw."), log, unwritten or UnwrittenRecords(log))


def test_a_producer_that_failed_for_good_is_replaced_before_the_next_samples(log):
    topic = metadata_topic(log)
    topic._producer = failed = FailedProducer()
    with pytest.raises(UnansweredError, match="sequence desynchronization"):
        topic.offer([])
    assert topic._producer is not failed
    assert log.names == ["observer.producer_renewed"]
    topic.offer([])


@pytest.mark.parametrize(("request_seconds", "patience"), [(0.5, 5.0), (2.0, 6.0), (20.0, 60.0)])
def test_the_state_is_read_back_as_patiently_as_each_request(
    request_seconds, patience, monkeypatch, log
):
    """Otherwise each tick would begin anew with a slow cluster, and none would ever end."""
    timeouts = []
    monkeypatch.setattr(module, "read_to_end", lambda *_, timeout: timeouts.append(timeout) or ())
    metadata_topic(log).recover(request_seconds)
    assert timeouts == [patience]


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
    topic = metadata_topic(log)
    topic._producer = LosingProducer()

    def failure():
        try:
            topic.offer([offsets("t", [3], at=1)])
        except UnansweredError as error:
            return str(error).partition(":")[0]
        return None

    assert [failure() for _ in range(4)] == [None, "a sample was not published", None, None]


class NarrowProducer(LosingProducer):
    """A producer whose client or broker refuses what is larger than a limit."""

    def __init__(self, most, *, by_broker):
        super().__init__()
        self.most, self.by_broker = most, by_broker
        self.sent = []

    def produce(self, _topic, value, key, *, on_delivery, **_options):
        error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if len(value or b"") > self.most else None
        if error is not None and not self.by_broker:
            raise KafkaException(error)
        if error is None:
            self.sent.append(key)
        self.reports.append(lambda: on_delivery(error, None))

    def flush(self, timeout):
        self.poll(timeout)


@pytest.mark.parametrize("by_broker", [True, False])
def test_a_record_that_is_too_large_costs_itself_alone_and_is_named_once(log, by_broker):
    unwritten = UnwrittenRecords(log)
    topic = metadata_topic(log, unwritten)
    topic._producer = producer = NarrowProducer(600, by_broker=by_broker)
    wide, narrow = layout("wide", ((),) * 200), layout("narrow", ((),) * 2)
    for _ in range(2):
        assert topic.publish([wide, narrow], ()) == {wide.key}
        topic.offer([offsets("wide", [3] * 200, at=1), offsets("narrow", [3], at=1)])
        topic.offer([])
    assert producer.sent == 2 * [b'["topic","narrow"]', b'["offsets","narrow"]']
    assert [entry["key"] for entry in log.of("record.unwritten")] == [
        ["topic", "wide"],
        ["offsets", "wide"],
    ]
    producer.most = 10**6
    assert topic.publish([wide], ()) == set()
    assert unwritten.found() == [("lw.metadata", ("offsets", "wide"))]


def test_a_topic_that_has_gone_before_its_layout_was_published_is_forgotten(log):
    unwritten = UnwrittenRecords(log)
    topic = metadata_topic(log, unwritten)
    topic._producer = NarrowProducer(600, by_broker=False)
    wide = layout("wide", ((),) * 200)
    topic.publish([wide], ())
    topic.publish([], ["wide"])
    assert unwritten.found()
    topic.publish([], ["another"])
    assert not unwritten.found()
    topic.publish([wide], ())
    topic.close()
    assert not unwritten.found()
