"""Giving dead letters to the pipeline once more: each alone, whatever befalls another."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from levelwind.assignors.protocol.records import DeadLetter, ReplayRecord
from levelwind.daemon.config.settings import load
from levelwind.daemon.errors import ClusterUnavailableError, NotFoundError
from levelwind.daemon.inspection.dead_letters import (
    ClassifiedLetter,
    LetterVerdict,
    print_letters,
    retry,
    summary,
)
from levelwind.daemon.kafka import record_writer


def letter(offset, **more):
    return DeadLetter(
        **(
            {
                "topic": "__consumer_offsets",
                "partition": 1,
                "offset": offset,
                "at": 5,
                "reason": "too new",
                "raw_key": b"k",
                "raw_value": b"v",
            }
            | more
        )
    )


def readable(offset):
    replay = ReplayRecord(
        at=6,
        topic="__consumer_offsets",
        partition=1,
        offset=offset,
        timestamp=4,
        until=100,
        raw_key=b"k",
        raw_value=b"v" * offset,
    )
    return ClassifiedLetter(
        letter=letter(offset), verdict=LetterVerdict.READABLE, reason="too new", replay=replay
    )


def outdated(offset):
    return ClassifiedLetter(letter=letter(offset), verdict=LetterVerdict.OUTDATED, reason="too new")


class FullOnceAndNarrow:
    """A producer whose queue is full at first, and that takes no large record."""

    def __init__(self):
        self.full, self.sent, self.waited, self.flushed = True, [], 0, False

    def produce(self, topic, value, _key, *, partition, headers, on_delivery):
        assert 0 <= partition < 4
        assert (value is None) == (headers == [])
        if self.full:
            self.full = False
            raise BufferError("Local: Queue full")
        if value is not None and len(value) > 2_000:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.sent.append((topic, value is None))
        on_delivery(None, None)

    def poll(self, timeout):
        self.waited += timeout

    def flush(self, _timeout):
        self.flushed = True
        return 0


@pytest.fixture
def producer(monkeypatch):
    made = FullOnceAndNarrow()
    monkeypatch.setattr(record_writer.clients, "producer", lambda *_: made)
    counts = {"levelwind.replays": 4, "levelwind.dead-letters": 4}
    monkeypatch.setattr(record_writer, "partition_counts", lambda *_: counts)
    return made


def test_a_queue_that_is_full_is_waited_for(producer):
    retry(load(), [readable(7), outdated(8)])
    assert producer.sent == [("levelwind.replays", False), ("levelwind.dead-letters", True)]
    assert producer.waited > 0


def test_a_letter_that_no_record_can_hold_is_named_and_the_others_go_on(producer):
    with pytest.raises(
        ClusterUnavailableError, match=r"__consumer_offsets/1 at offset 5000: .*too large"
    ):
        retry(load(), [readable(5_000), readable(7), outdated(8)])
    assert producer.sent == [("levelwind.replays", False), ("levelwind.dead-letters", True)]
    assert producer.flushed


def test_what_is_still_unreadable_is_left_alone(producer):
    retry(
        load(),
        [ClassifiedLetter(letter=letter(1), verdict=LetterVerdict.UNREADABLE, reason="too new")],
    )
    assert producer.sent == []


def test_without_a_topic_for_replays_it_says_what_makes_one(monkeypatch):
    monkeypatch.setattr(record_writer, "partition_counts", lambda *_: {"levelwind.dead-letters": 4})
    with pytest.raises(
        NotFoundError, match=r"no topic levelwind.replays: start the daemon, which makes it"
    ):
        retry(load(), [readable(7)])


def test_no_letter_is_no_table(capsys):
    print_letters([])
    assert capsys.readouterr().out == ""
    assert summary([], retried=False) == summary([], retried=True) == "there are no dead letters"
    print_letters([outdated(8)])
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["TOPIC", "POSITION", "AGE", "STATUS", "REASON"]
    assert row.split()[:2] == ["__consumer_offsets", "1/8"]
