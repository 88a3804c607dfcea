"""Records that are too large for one message: cut into shards, and made whole again."""

import random

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    GroupShard,
    MemberShard,
    Tombstone,
    decode,
    encode,
    encode_key,
)
from levelwind.assignors.protocol.records.cutting import WHOLE_BYTES, cut
from levelwind.assignors.protocol.records.reassembly import Reassembly, names_record
from levelwind_testing.large_records import LARGE, plan
from levelwind_testing.records import assignment

MESSAGE_BYTES = 1_000_000
"""Largest message that a client sends by default; brokers accept 1,048,588 bytes."""
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


@pytest.mark.slow
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


@pytest.mark.slow
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
