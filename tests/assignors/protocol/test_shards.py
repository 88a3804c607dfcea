"""Records that are too large for one message: cut into shards, and made whole again."""

import random
from dataclasses import replace

import pytest

from assignors.protocol.records import (
    GroupRecord,
    GroupShard,
    MemberShard,
    PlannedMember,
    PlannedRacks,
    PlannedTopic,
    Tombstone,
    decode,
    encode,
    encode_key,
)
from assignors.protocol.records.cutting import WHOLE_BYTES, cut
from assignors.protocol.records.reassembly import Reassembly, names_record
from levelwind_testing.records import TOPIC_ID, assignment

MESSAGE_BYTES = 1_000_000
"""Largest message that a client sends by default; brokers accept 1,048,588 bytes."""
RACK_SETS = [("a", "b", "c"), ("b", "c", "d"), ("a", "c", "d")]


def plan(members=2, topics=1, partitions=4):
    """A plan of this many members, whose names are as long as those of pods."""
    subscription = tuple(f"orders.{number}" for number in range(topics))
    return GroupRecord(
        group="g",
        mode="managed",
        planner_epoch=3,
        group_epoch=7,
        plan_id="7-abc",
        strategy="optimal",
        cause="membership",
        lag_at=1,
        metadata_at=2,
        topics={
            topic: PlannedTopic(
                id=TOPIC_ID,
                partitions=partitions,
                racks=PlannedRacks(
                    at=2, racks=tuple(RACK_SETS[number % 3] for number in range(partitions))
                ),
            )
            for topic in subscription
        },
        members=tuple(
            PlannedMember(
                instance=f"orders-consumer-7f9c5d6b4d-{number:06}",
                incarnation=f"{number:032x}",
                rack="eu-west-1a",
                capacity=1.0,
                topics=subscription,
            )
            for number in range(members)
        ),
        before=None,
        after=None,
        computed_at=5,
        digest="",
    )


def fragmented(topic, count, first=0):
    """Every other partition of a topic: nothing to join into ranges."""
    return {topic: tuple(range(first, first + 2 * count, 2))}


LARGE = {
    "10,000 members": plan(members=10_000),
    "300,000 partitions of one topic": plan(partitions=300_000),
    "200,000 partitions of 2,000 topics": plan(topics=2_000, partitions=100),
    "both": plan(members=10_000, topics=20, partitions=10_000),
    "a member with 100,000 partitions": assignment("m0", fragmented("t", 100_000)),
    "a member that gives them up": replace(
        assignment("m0", fragmented("t", 90_000)),
        pending=fragmented("u", 50_000),
        revoking={**fragmented("t", 70_000, first=200_001), **fragmented("v", 3)},
    ),
}
each_large = pytest.mark.parametrize("record", LARGE.values(), ids=LARGE)


def read_back(record):
    """A record as a reader gets it."""
    return decode("assignments", *encode(record))


@each_large
def test_every_message_of_a_large_record_is_small_enough_for_brokers_and_clients(record):
    parts = cut(record)
    assert parts[-1].key == record.key
    assert parts[-1].shards.count == len(parts) - 1
    sizes = [sum(map(len, encode(part))) for part in parts]
    assert max(sizes) < MESSAGE_BYTES


@each_large
def test_a_large_record_is_made_whole_again(record):
    reassembly = Reassembly()
    *shards, head = map(read_back, cut(record))
    assert [reassembly.take(shard) for shard in shards] == [None] * len(shards)
    assert reassembly.take(head) == record
    assert reassembly.incomplete == {}


@pytest.mark.parametrize("record", [plan(), assignment("m0", {"t": (0, 1)})])
def test_a_record_that_fits_stays_whole(record):
    assert cut(record) == (record,)
    assert Reassembly().take(record) == record


@each_large
@pytest.mark.parametrize("lost", ["missing", "another's"])
def test_a_record_without_all_its_shards_is_incomplete_until_it_is_written_again(record, lost):
    reassembly = Reassembly()
    *shards, head = cut(record)
    for shard in shards[1:]:
        reassembly.take(shard)
    if lost == "another's":
        reassembly.take(replace(shards[0], digest="another"))
    assert reassembly.take(head) is None
    assert list(reassembly.incomplete) == [record.key]
    assert [reassembly.take(part) for part in cut(record)][-1] == record
    assert reassembly.incomplete == {}


def test_shards_of_two_records_that_are_written_in_turns_do_not_mix():
    first, second = LARGE["10,000 members"], replace(LARGE["10,000 members"], group="h")
    parts = [*zip(cut(first), cut(second), strict=True)]
    reassembly = Reassembly()
    taken = [reassembly.take(part) for pair in parts for part in pair]
    assert [whole for whole in taken if whole is not None] == [first, second]


def test_tombstones_of_shards_are_for_no_reader():
    reassembly = Reassembly()
    *shards, head = cut(LARGE["both"])
    for shard in shards:
        reassembly.take(shard)
    assert reassembly.take(Tombstone(("gs", "g", len(shards)))) is None
    assert reassembly.take(head) == LARGE["both"]
    end = Tombstone(head.key)
    assert reassembly.take(end) == end


def test_a_topic_that_does_not_fit_is_planned_without_its_racks():
    record = plan(partitions=900_000)
    reassembly = Reassembly()
    (whole,) = [found for part in cut(record) if (found := reassembly.take(part)) is not None]
    assert whole.topics["orders.0"] == replace(record.topics["orders.0"], racks=None)


def test_the_shards_of_any_record_keep_to_the_limit():
    rng = random.Random(7)
    for _ in range(6):
        record = plan(
            members=rng.randrange(6_000), topics=rng.randrange(1, 40), partitions=rng.randrange(900)
        )
        *shards, head = cut(record)
        assert all(isinstance(shard, GroupShard | MemberShard) for shard in shards)
        assert all(len(encode(part)[1]) < WHOLE_BYTES + 10_000 for part in (*shards, head))


def test_the_key_of_a_record_and_those_of_its_shards_name_it():
    parts = cut(LARGE["a member with 100,000 partitions"])
    key = parts[-1].key
    assert all(names_record(encode_key(part.key), key) for part in parts)
    for other in (("m", "g", "m0", "i2"), ("ms", "g", "m0", "i11", 0), ("g", "g"), ("ms", "g", 1)):
        assert not names_record(encode_key(other), key)
    assert not names_record(None, key)
