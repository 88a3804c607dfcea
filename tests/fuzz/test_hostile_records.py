"""Hostile records in every input topic: each is rejected and counted, soon, and none ends a reader.

A record that matches no schema is rejected whoever wrote it. A forged one that matches its schema
is what the right to write to the topic is for.
"""

import time
from dataclasses import dataclass

import pytest

from assignors.protocol.records import encode
from assignors.protocol.topics import TOPIC_KINDS, Topics
from daemon.kafka.topic_follower import TopicFollower
from daemon.service.metrics import Metrics
from levelwind_testing.records import lag, member, topic
from streaming.decoding import ingest, offsets_topic
from streaming.messages.rows import Kind, Raw

TOPICS = Topics()
SECONDS = 5.0
"""Far more than any of them takes, on a busy machine too."""
MIB = 1 << 20
GROUP = b'["g","g"]'
HOSTILE = {
    "not json": (GROUP, b"\x00\x01"),
    "no utf-8": (GROUP, b'{"v":1,"x":"\xff\xfe"}'),
    "cut": (GROUP, b'{"v":1,'),
    "nested arrays": (GROUP, b"[" * 200_000 + b"]" * 200_000),
    "nested objects": (GROUP, b'{"v":' * 100_000 + b"1" + b"}" * 100_000),
    "nested in a field": (GROUP, b'{"v":1,"mode":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nested key": (b"[" * 100_000 + b"]" * 100_000, b"{}"),
    "oversized text": (GROUP, b'{"v":1,"mode":"' + b"x" * (8 * MIB) + b'"}'),
    "oversized list": (GROUP, b'{"v":1,"members":[' + b"1," * MIB + b"1]}"),
    "oversized number": (GROUP, b'{"v":1,"group_epoch":' + b"9" * MIB + b"}"),
    "oversized key": (b'["g","' + b"x" * (2 * MIB) + b'"]', b"{}"),
    "not a number": (GROUP, b'{"v":NaN}'),
    "lone surrogate": (GROUP, b'{"v":1,"mode":"\\ud800"}'),
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
    begun = time.process_time()
    follower._handle(ForeignMessage(TOPICS.name(kind), key, value))
    assert time.process_time() - begun < SECONDS
    assert taken == []
    counted = metrics.registry.get_sample_value(
        "levelwind_rejected_records_total", {"topic": TOPICS.name(kind)}
    )
    assert counted == follower.rejected == 1


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
    found = packed(offsets_topic.TOPIC, *record)
    assert Kind.REJECTED in found.kind
    assert sum(found.n) == 1


def packed(name, key, value):
    raw = Raw(topic=name, partition=0, offset=7, timestamp=1_000, key=key, value=value)
    begun = time.process_time()
    found = ingest.pack_batch(ingest.RecordColumns.of(raw), TOPICS)
    assert time.process_time() - begun < SECONDS
    return found


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
