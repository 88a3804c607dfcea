"""Records of the pipeline that are too large for a message: cut as text, and joined."""

import json
import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.protocol.records import (
    CUT_AS_TEXT,
    KINDS,
    CutRecord,
    Rejection,
    TextShard,
    Tombstone,
    decode,
    encode,
)
from levelwind.assignors.protocol.records.cut import MOST_SHARDS
from levelwind.assignors.protocol.records.cutting import cut_text
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind_testing import records
from levelwind_testing.examples import examples

KEY = ("lag", "g", "t")
values = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=8),
    max_leaves=60,
).map(lambda document: json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
keys = st.sampled_from([KEY, ("speed", "g"), ("skew", 'a "name"\\'), ("racks", "größe")])


def kind_of(key):
    return "lag" if key[0] in {"lag", "speed"} else "triggers"


def messages(key, value, most_bytes):
    """The messages of a record, as a reader gets them."""
    return [decode(kind_of(key), *encode(part)) for part in cut_text(key, value, most_bytes)]


def taken(reassembly, parts):
    return [reassembly.take_text("lag", part) for part in parts]


@settings(max_examples=examples(200))
@given(key=keys, value=values, most_bytes=st.integers(200, 700))
def test_every_message_keeps_to_the_limit_and_all_are_the_value_again(key, value, most_bytes):
    parts = cut_text(key, value, most_bytes)
    assume(parts[-1].shards is not None)
    assert max(sum(map(len, encode(part))) for part in parts) <= most_bytes
    assert (parts[-1].key, parts[-1].bytes) == (key, len(value))
    *shards, head = messages(key, value, most_bytes)
    reassembly, kind = Reassembly(), kind_of(key)
    assert [reassembly.take_text(kind, shard) for shard in shards] == [None] * len(shards)
    assert reassembly.take_text(kind, head) == value


@settings(max_examples=examples(100))
@given(data=st.data(), value=values.filter(lambda value: len(value) > 200))
def test_a_record_without_all_its_shards_is_not_read_until_it_is_written_again(data, value):
    parts = messages(KEY, value, 260)
    lost = data.draw(st.sampled_from(range(len(parts) - 1)))
    replaced = data.draw(st.booleans())
    reassembly = Reassembly()
    shards = parts[:-1]
    other = messages(KEY, b"[%b]" % value, 260)
    shards[lost : lost + 1] = [other[lost]] if replaced else []
    assert set(taken(reassembly, [*shards, parts[-1]])) == {None}
    assert taken(reassembly, parts)[-1] == value


def test_what_is_left_of_an_earlier_larger_record_and_of_a_half_written_one_does_no_harm():
    sample = [bytes(f'"{number}{"x" * (900 * number)}"', "utf-8") for number in range(4)]
    cuts = [messages(KEY, value, 300) for value in sample]
    reassembly = Reassembly()
    taken(reassembly, cuts[3][:-1])  # its head was compacted away
    assert taken(reassembly, cuts[1])[-1] == sample[1]
    taken(reassembly, cuts[2][:4])  # the pipeline ended there, and writes the batch again
    assert taken(reassembly, cuts[2])[-1] == sample[2]


def test_shards_of_two_records_that_come_in_turns_do_not_mix():
    other_key = ("lag", "g", "u")
    first, second = messages(KEY, b'"%b"' % (b"1" * 900), 300), messages(other_key, b"2", 300)
    reassembly = Reassembly()
    taken(reassembly, [first[0], second[0], *first[1:-1]])
    assert reassembly.take_text("lag", second[-1]) == b"2"
    assert reassembly.take_text("lag", first[-1]) == b'"%b"' % (b"1" * 900)


def test_shards_of_one_value_that_was_cut_to_two_sizes_do_not_mix():
    value = b'"%b"' % bytes(ord("a") + number % 26 for number in range(1_500))
    larger, smaller = messages(KEY, value, 400), messages(KEY, value, 300)
    reassembly = Reassembly()
    assert taken(reassembly, [*larger[:-1], smaller[0], larger[-1]])[-1] is None
    assert taken(reassembly, smaller)[-1] == value


@settings(max_examples=examples(200))
@given(data=st.data(), found=st.lists(values, min_size=1, max_size=3))
def test_messages_in_any_order_give_values_that_were_written_or_none(data, found):
    sizes = [data.draw(st.integers(200, 400)) for _ in found]
    written = [messages(KEY, value, size) for value, size in zip(found, sizes, strict=True)]
    parts = [part for record in written for part in record]
    ends = [Tombstone(part.key) for part in parts]
    order = data.draw(st.lists(st.sampled_from([*parts, *ends]), max_size=60))
    reassembly = Reassembly()
    results = taken(reassembly, order)
    allowed = {None, *found}
    assert all(isinstance(result, CutRecord | Tombstone) or result in allowed for result in results)
    # Whatever came before: a record that is written as it should be is read.
    assert taken(reassembly, written[0])[-1] in {found[0], written[0][-1]}


def test_a_record_that_is_whole_and_tombstones_leave_no_shard_behind():
    *shards, _ = messages(KEY, b'"%b"' % (b"1" * 900), 300)
    for after in (records.lag(1, 2), Tombstone(KEY)):
        reassembly = Reassembly()
        taken(reassembly, [replace(shard, head_key=after.key) for shard in shards])
        assert reassembly.take_text("lag", after) == after
        assert reassembly._texts == {}
    taken(reassembly, [*shards, *(Tombstone(shard.key) for shard in shards)])
    assert reassembly._texts == {}


@pytest.mark.parametrize(
    ("topic", "key"),
    [("triggers", '["pipeline"]'), ("lag", '["lags","g","t",0]'), ("metadata", '["topic","t"]')],
)
def test_only_records_that_are_cut_have_heads(topic, key):
    value = b'{"v":100,"bytes":5,"shards":null}'
    assert isinstance(decode(topic, key.encode(), value), Rejection)


def test_tombstones_of_shards_are_for_no_reader_and_that_of_the_record_ends_what_waits():
    *shards, head = messages(KEY, b'"%b"' % (b"1" * 900), 300)
    reassembly = Reassembly()
    assert reassembly.take_text("lag", Tombstone(shards[0].key)) is None
    taken(reassembly, shards)
    assert reassembly.take_text("lag", Tombstone(KEY)) == Tombstone(KEY)
    assert reassembly.take_text("lag", head) is None


def test_a_record_that_no_message_has_room_for_is_its_head_alone():
    for most_bytes, value in ((120, b"1" * 500), (300, b"1" * (MOST_SHARDS * 300))):
        (head,) = messages(KEY, value, most_bytes)
        assert head == CutRecord(head_key=KEY, bytes=len(value), shards=None)
        assert Reassembly().take_text("lag", head) == head


def test_a_program_that_knows_no_cut_records_asks_for_its_upgrade():
    kinds = {KINDS[topic][word].record.V for topic in CUT_AS_TEXT for word in KINDS[topic]}
    assert max(kinds) < CutRecord.V
    *_, head = cut_text(KEY, b"1" * 500, 300)
    _, value = encode(head)
    refused = decode(
        "members", encode(records.member("m0"))[0], value
    )  # of a topic that knows none
    assert isinstance(refused, Rejection)
    assert refused.other_version
    assert "upgrade this program" in refused.reason


def test_a_wide_record_of_names_that_must_be_escaped_is_cut_in_few_shards():
    draw = random.Random(1)
    racks = [[f'"rack"\\{draw.randrange(9)}'] * 3 for _ in range(50_000)]
    value = json.dumps(racks, separators=(",", ":")).encode()
    parts = cut_text(KEY, value, 10**6)
    assert len(parts) - 1 <= 2 * len(value) / 10**6 + 1
    assert all(isinstance(part, TextShard) for part in parts[:-1])
