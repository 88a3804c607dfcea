"""Reading a topic to its end with a consumer that is scripted, and giving up without progress."""

import pytest
from confluent_kafka import KafkaError

from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka import topic_reader
from levelwind.daemon.kafka.topic_reader import ReadProgress, poll_batch, read_until


class Message:
    def __init__(self, partition, offset, error=None):
        self._partition, self._offset, self._error = partition, offset, error

    def topic(self):
        return "t"

    def partition(self):
        return self._partition

    def offset(self):
        return self._offset

    def error(self):
        return self._error


def partition_end(partition, offset):
    return Message(partition, offset, KafkaError(KafkaError._PARTITION_EOF))


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


class ScriptedConsumer:
    """Answers each poll with the next batch of a script; an empty batch takes its time."""

    def __init__(self, clock, *batches):
        self.clock, self.batches, self.rest = clock, list(batches), []

    def poll(self, _timeout):
        batch = self.batches.pop(0) if self.batches else []
        if not batch:
            self.clock.now += 1.0
            return None
        self.rest = batch[1:]
        return batch[0]

    def consume(self, _count, timeout):
        assert timeout == 0
        rest, self.rest = self.rest, []
        return rest


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(topic_reader, "time", clock)
    return clock


def test_a_poll_takes_everything_that_has_come(clock):
    batch = [Message(0, 1), Message(0, 2)]
    consumer = ScriptedConsumer(clock, batch)
    assert poll_batch(consumer, 0.2) == batch
    assert poll_batch(consumer, 0.2) == []


def test_reading_stops_when_every_partition_has_reached_its_end(clock):
    batches = [[Message(0, 0), Message(1, 0)], [], [Message(0, 1)], [partition_end(1, 4)], [None]]
    consumer = ScriptedConsumer(clock, *batches)
    progress = ReadProgress.to({("t", 0): 2, ("t", 1): 4, ("t", 2): 0})
    read = list(read_until(consumer, progress, timeout=10.0))
    assert read == batches[:4]
    assert progress.done


def test_nothing_is_read_where_every_end_is_reached_from_the_start(clock):
    consumer = ScriptedConsumer(clock, [Message(0, 0)])
    assert list(read_until(consumer, ReadProgress.to({("t", 0): 0}), timeout=1.0)) == []


def test_reading_gives_up_after_the_timeout_without_a_message(clock):
    consumer = ScriptedConsumer(clock, [Message(0, 0)])
    progress = ReadProgress.to({("t", 0): 2, ("t", 1): 1})
    with pytest.raises(
        ClusterUnavailableError, match=r"no progress in 3 s reading \[\('t', 0\), \('t', 1\)\]"
    ):
        list(read_until(consumer, progress, timeout=3.0))
    assert clock.now == 4.0


def test_every_message_starts_the_timeout_again_however_long_the_caller_takes(clock):
    silence = [[], [], []]
    consumer = ScriptedConsumer(
        clock, [Message(0, 0)], *silence, [Message(0, 1)], *silence, [Message(0, 2)]
    )
    for messages in read_until(consumer, ReadProgress.to({("t", 0): 3}), timeout=3.0):
        if messages:
            clock.now += 100.0
