"""Hostile records in every input topic: each is rejected and counted, and none ends a reader.

A record that matches no schema is rejected whoever wrote it. A forged one that matches its schema
is what the right to write to the topic is for. A rejection takes a bounded number of steps and of
bytes for each byte of the record, so that no record holds up those after it.
"""

import time
from dataclasses import dataclass
from typing import get_args

import pytest

from levelwind.assignors.protocol.declared.declaration import declaration_of
from levelwind.assignors.protocol.records import Record, decode, encode
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, TOPIC_KINDS, Topics
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind.daemon.service.metrics import Metrics
from levelwind.streaming.decoding import ingest
from levelwind.streaming.messages.rows import Kind, Raw
from levelwind_testing.records import lag, member, topic
from levelwind_testing.steps import counted_steps, memory_traced, peak_bytes

TOPICS = Topics()
STEPS = 10_000
BYTES, BYTES_PER_BYTE = 64 * 1024, 16
"""The most steps and memory for a record of any size, and the memory for each of its bytes."""
MIB = 1 << 20
GROUP = b'["g","g"]'
HOSTILE = {
    "not json": (GROUP, b"\x00\x01"),
    "no utf-8": (GROUP, b'{"v":1,"x":"\xff\xfe"}'),
    "cut": (GROUP, b'{"v":1,'),
    "nested arrays": (GROUP, b"[" * 200_000 + b"]" * 200_000),
    "nested objects": (GROUP, b'{"v":' * 100_000 + b"1" + b"}" * 100_000),
    "nested in a field": (GROUP, b'{"v":2,"mode":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nested key": (b"[" * 100_000 + b"]" * 100_000, b"{}"),
    "oversized text": (GROUP, b'{"v":2,"mode":"' + b"x" * (8 * MIB) + b'"}'),
    "oversized list": (GROUP, b'{"v":2,"members":[' + b"1," * MIB + b"1]}"),
    "oversized number": (GROUP, b'{"v":2,"group_epoch":' + b"9" * MIB + b"}"),
    "oversized key": (b'["g","' + b"x" * (2 * MIB) + b'"]', b"{}"),
    "not a number": (GROUP, b'{"v":NaN}'),
    "lone surrogate": (GROUP, b'{"v":2,"mode":"\\ud800"}'),
    "unknown version": (GROUP, b'{"v":99}'),
    "another kind of key": (b'["no such kind","g"]', b'{"v":1}'),
    "key of another arity": (b'["g"]', b'{"v":1}'),
    "key of another type": (b'{"g":1}', b'{"v":1}'),
    "no key": (None, b'{"v":1}'),
    "empty key": (b"", b'{"v":1}'),
    "empty value": (GROUP, b""),
}


@dataclass
class ForeignMessage:
    """A message as the client hands it over."""

    name: str
    raw_key: bytes | None
    raw_value: bytes | None

    def topic(self):
        return self.name

    def key(self):
        return self.raw_key

    def value(self):
        return self.raw_value

    def partition(self):
        return 0

    def offset(self):
        return 7

    def timestamp(self):
        return (1, 1_000)

    def error(self):
        return None


class Quiet:
    def __getattr__(self, level):
        return lambda *_, **__: None


@pytest.fixture(scope="module", autouse=True)
def traced():
    pack(TOPICS.name("metadata"), *encode(topic()))  # imports what it needs
    for kind in get_args(Record):
        declaration_of(kind)  # a process makes the decoder of a kind once
    with memory_traced():
        yield


def bounded(call, *parts):
    """Call, and see that the work is little for a record of these parts."""
    (answer, peak), steps = counted_steps(lambda: peak_bytes(call))
    size = sum(len(part or b"") for part in parts)
    assert steps <= STEPS
    assert peak <= BYTES + BYTES_PER_BYTE * size
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOPIC_KINDS)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_daemon_rejects_and_counts_it(kind, hostile):
    key, value = HOSTILE[hostile]
    taken, metrics = [], Metrics("0", now=time.time)
    follower = TopicFollower(
        client_config={},
        topics=TOPICS,
        on_record=taken.append,
        on_unread=taken.append,
        on_rejected=lambda rejected: metrics.on_rejected(TOPICS.name(rejected.kind)),
        log=Quiet(),
    )
    message = ForeignMessage(TOPICS.name(kind), key, value)
    bounded(lambda: follower._handle(message), key, value)
    assert taken == []
    counted = metrics.registry.get_sample_value(
        "levelwind_rejected_records_total", {"topic": TOPICS.name(kind)}
    )
    assert counted == follower.rejected == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["metadata", "assignments", "replays"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_the_pipeline_rejects_counts_and_keeps_it(kind, hostile):
    key, value = HOSTILE[hostile]
    found = packed(TOPICS.name(kind), key, value)
    assert [kind for kind in found.kind if kind == Kind.REJECTED] == [Kind.REJECTED]
    assert sum(found.n) == 1
    kept = Raw.unpack(found.payload[found.kind.index(Kind.REJECTED)])
    assert (kept.key, kept.value) == (key, value)


@pytest.mark.parametrize(
    "record",
    [
        (b"\x00\x01\x7f\xff", b"\x00\x01"),
        (b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x00", b"\x00\x03\x00"),
        (b"\x00\x03" + b"\x7f\xff" + b"g" * 10, b"\x00"),
        (b"\x00\x02\x00\x01g", b"\x00\x03" + b"\xff" * MIB),
        (b"", b"x"),
    ],
    ids=["length beyond the end", "cut commit", "cut key", "oversized membership", "empty key"],
)
def test_the_pipeline_rejects_damaged_records_of_the_offsets_topic(record):
    found = packed(OFFSETS_TOPIC, *record)
    assert Kind.REJECTED in found.kind
    assert sum(found.n) == 1


def packed(name, key, value):
    return bounded(lambda: pack(name, key, value), key, value)


def pack(name, key, value):
    raw = Raw(topic=name, partition=0, offset=7, timestamp=1_000, key=key, value=value)
    return ingest.pack_batch(ingest.RecordColumns.of(raw), TOPICS)


def test_a_number_of_too_many_digits_is_refused_before_it_is_computed():
    # Steps do not show it, and the time to compute it grows with the square of its digits.
    assert "out of range" in decode("assignments", *HOSTILE["oversized number"]).reason


def test_a_record_that_belongs_into_another_topic_is_rejected():
    belongs = {"lag": lag(1), "members": member("a"), "metadata": topic()}
    for home, record in belongs.items():
        for kind in set(TOPIC_KINDS) - {home, "dead_letters", "replays"}:
            rejected = []
            follower = TopicFollower(
                client_config={},
                topics=TOPICS,
                on_record=lambda _: None,
                on_rejected=rejected.append,
                log=Quiet(),
            )
            follower._handle(ForeignMessage(TOPICS.name(kind), *encode(record)))
            assert len(rejected) == 1, (home, kind)
