"""Records that repeat the one before: announcements, and samples of lag."""

import json
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from levelwind.assignors.protocol.records import CutRecord, Rejection, Tombstone, decode, encode
from levelwind.assignors.protocol.records.cutting import cut_text
from levelwind.assignors.protocol.unread_lag import LagFigures, UnreadLag, left_unread
from levelwind.daemon.kafka import repeated_records
from levelwind.daemon.kafka.repeated_records import RepeatedRecords
from levelwind_testing.records import lag, member, topic

FIRST = member("m0", state="active", owned={"t": (0, 1)}, rack="a", heartbeat=9)
NUMBERS = st.sampled_from(("0", "7", "10", "007", "-1", "1.0", "9007199254740992", "9" * 30, ""))


def values():
    """Announcements of one member, as it writes them and as others might."""
    properties = st.sampled_from(
        (
            {},
            {"state": "left"},
            {"topics": ("heartbeat",), "owned": {"heartbeat": (1,)}},
            {"rack": '"heartbeat":5'},
            {"rack": "ä"},
        )
    )

    def written(changes, number, before, after):
        value = encode(replace(FIRST, **changes))[1].decode()
        head, _, rest = value.partition('"heartbeat":9')
        return (before + head + f'"heartbeat":{number}' + rest + after).encode()

    nested = st.sampled_from(("", " ", "{", '{"x":{"heartbeat":3},'))
    return st.builds(written, properties, NUMBERS, nested, st.sampled_from(("", "}", ",", " ")))


@given(st.lists(values() | st.none(), max_size=8))
def test_an_announcement_is_decoded_as_if_none_had_come_before(values):
    announcements = RepeatedRecords()
    key, first = encode(FIRST)
    for value in (first, *values, first):
        found = announcements.decode("members", key, value)
        assert found == decode("members", key, value)
        assert type(found) is type(decode("members", key, value))


def test_a_repeated_announcement_is_not_read_again():
    announcements = RepeatedRecords()
    announcements.decode("members", *encode(FIRST))
    with patch.object(repeated_records, "decode", side_effect=AssertionError):
        for number in (10, 11, 1000):
            record = replace(FIRST, heartbeat=number)
            assert announcements.decode("members", *encode(record)) == record


def test_where_numbers_are_of_no_interest_the_record_is_that_of_the_announcement_repeated():
    lazy = RepeatedRecords(lazy=True)
    first = lazy.decode("members", *encode(FIRST))
    assert first == FIRST
    assert lazy.decode("members", *encode(replace(FIRST, heartbeat=10))) is first
    other = replace(FIRST, heartbeat=11, capacity=2.0)
    assert lazy.decode("members", *encode(other)) == other


def test_another_field_of_the_same_name_keeps_an_announcement_from_being_a_pattern():
    key, value = encode(FIRST)
    document = {"also": {"heartbeat": 9}, **json.loads(value)}
    first = json.dumps(document, separators=(",", ":")).encode()
    second = first.replace(b'{"heartbeat":9}', b'{"heartbeat":12}')
    announcements = RepeatedRecords()
    announcements.decode("members", key, first)
    assert announcements.decode("members", key, second).heartbeat == 9


@pytest.mark.parametrize("value", [None, b"{"])
def test_what_is_no_announcement_ends_the_pattern(value):
    announcements = RepeatedRecords()
    key, first = encode(FIRST)
    announcements.decode("members", key, first)
    found = announcements.decode("members", key, value)
    assert found == (Tombstone(FIRST.key) if value is None else decode("members", key, value))
    assert announcements.decode("members", key, first) == FIRST


def test_other_records_are_decoded_as_ever():
    record = topic()
    assert RepeatedRecords().decode("metadata", *encode(record)) == record


def test_no_more_members_are_remembered_than_allowed():
    announcements = RepeatedRecords(most_members=2)
    for number in range(5):
        announcements.decode("members", *encode(replace(FIRST, instance=f"m{number}")))
    assert len(announcements._last) == 2


SAMPLE = lag(5, 0, rate=(1.5, None), velocity=(2.5, None), seconds=(0.1, 0.0))


OTHERS = {
    "other figures": replace(SAMPLE, at=2500, lag=(70, 11), rate=(3.0, None)),
    "a rate": replace(SAMPLE, rate=(1.5, 2.5)),
    "two stale partitions": replace(SAMPLE, stale=(0, 1)),
    "another partition": lag(5, 0, 1, rate=(1.5, None, 1.0), seconds=(0.1, 0.0, 0.0)),
    "no velocity": replace(SAMPLE, velocity=None),
}


@pytest.mark.parametrize("later", OTHERS.values(), ids=OTHERS)
def test_the_first_sample_of_a_topic_is_read_and_later_ones_are_left_unread(later):
    lazy = RepeatedRecords(lazy=True)
    assert lazy.decode("lag", *encode(SAMPLE)) == SAMPLE
    unread = lazy.decode("lag", *encode(later))
    assert isinstance(unread, UnreadLag)
    assert (unread.key, unread.at, unread.read()) == (later.key, later.at, later)
    assert lazy.decode("lag", *encode(replace(later, topic="u"))) == replace(later, topic="u")


@pytest.mark.parametrize("rate", [None, (1.5, None)])
@pytest.mark.parametrize("members", [(), ('"lag":[9', '"at":9', "]")], ids=["", "members"])
def test_the_figures_of_a_sample_are_those_of_the_record(rate, members):
    record = replace(SAMPLE, rate=rate, members=members, owner=(0, 0) if members else None)
    unread = left_unread(record.group, record.topic, encode(record)[1])
    assert (unread.at, unread.figures()) == (record.at, LagFigures(record.lag, rate))
    assert unread.read() == record


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"lag":[5,', b'"lag":[-5,'),
        (b'"lag":[5,', b'"lag":[.5,'),
        (b'"lag":[5,', b'"lag":[5.0,'),
        (b'"rate":[1.5', b'"rate":[-1.5'),
        (b'"rate":[1.5', b'"rate":[true'),
    ],
)
def test_figures_that_break_the_protocol_are_none(before, after):
    value = encode(SAMPLE)[1]
    assert before in value
    assert UnreadLag("g", "t", SAMPLE.at, value.replace(before, after)).figures() is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((b'"at":2000', b'"at":%s' % digits) for digits in (b"-1", b"1.5", b"", b"9" * 30)),
        (b'"v":2', b'"v":3'),
        (b'"v":2', b'"w":2'),
    ],
)
def test_a_sample_without_a_time_or_of_another_version_is_refused_at_once(before, after):
    lazy = RepeatedRecords(lazy=True)
    key, value = encode(SAMPLE)
    lazy.decode("lag", key, value)
    broken = value.replace(before, after)
    assert broken != value
    refused = lazy.decode("lag", key, broken)
    assert isinstance(refused, Rejection)
    assert refused == decode("lag", key, broken)


@pytest.mark.parametrize(
    "after", [b',"w":{"at":9,"v":2,"velocity":[1]}}', b',"w":[{"v":2,"velocity":[1]}]}']
)
def test_the_version_of_a_part_is_not_that_of_the_sample(after):
    value = encode(SAMPLE)[1]
    later = left_unread("g", "t", value[:-1] + after)
    assert (later.at, later.read()) == (SAMPLE.at, SAMPLE)
    assert left_unread("g", "t", value.replace(b'"v":2', b'"v":3')[:-1] + after) is None


@pytest.mark.parametrize("spaced", [b" ", b"\n"])
def test_a_sample_that_is_not_canonical_is_left_unread_too(spaced):
    value = encode(SAMPLE)[1].replace(b",", b"," + spaced)
    unread = left_unread("g", "t", value)
    assert (unread.at, unread.read()) == (SAMPLE.at, SAMPLE)


@pytest.mark.parametrize("value", [None, b"{", b""])
def test_after_what_is_no_sample_the_next_one_is_read(value):
    lazy = RepeatedRecords(lazy=True)
    key, first = encode(SAMPLE)
    lazy.decode("lag", key, first)
    assert lazy.decode("lag", key, value) == decode("lag", key, value)
    assert lazy.decode("lag", key, first) == SAMPLE


def test_samples_are_read_where_nobody_asked_to_leave_them_unread():
    eager = RepeatedRecords()
    for _ in range(2):
        assert eager.decode("lag", *encode(SAMPLE)) == SAMPLE


def cut(record, most_bytes=250):
    return [encode(part) for part in cut_text(record.key, encode(record)[1], most_bytes)]


@pytest.mark.parametrize("lazy", [True, False])
def test_a_record_that_was_cut_comes_with_its_head_and_is_else_nothing(lazy):
    reader = RepeatedRecords(lazy=lazy)
    *shards, head = cut(SAMPLE)
    assert len(shards) > 1
    assert {reader.decode("lag", *shard) for shard in shards} == {None}
    assert reader.decode("lag", *head) == SAMPLE
    assert reader.decode("lag", *head) is None  # its shards were taken
    assert reader.decode("lag", shards[0][0], None) is None


def test_a_cut_sample_after_another_is_left_unread():
    lazy = RepeatedRecords(lazy=True)
    lazy.decode("lag", *encode(SAMPLE))
    later = replace(SAMPLE, at=2500, lag=(70, 11))
    *_, unread = [lazy.decode("lag", *part) for part in cut(later)]
    assert isinstance(unread, UnreadLag)
    assert unread.read() == later
    assert isinstance(lazy.decode("lag", *encode(SAMPLE)), UnreadLag)


def test_a_record_that_its_topic_has_no_room_for_is_handed_on_as_that():
    (head,) = cut(SAMPLE, most_bytes=100)
    found = RepeatedRecords(lazy=True).decode("lag", *head)
    assert found == CutRecord(head_key=SAMPLE.key, bytes=len(encode(SAMPLE)[1]), shards=None)
