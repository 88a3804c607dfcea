"""Announcements that repeat the one before, decoded as `decode` alone would."""

import json
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.protocol.records import Tombstone, decode, encode
from daemon.kafka import repeated_announcements
from daemon.kafka.repeated_announcements import RepeatedAnnouncements
from levelwind_testing.records import member, topic

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
    announcements = RepeatedAnnouncements()
    key, first = encode(FIRST)
    for value in (first, *values, first):
        found = announcements.decode("members", key, value)
        assert found == decode("members", key, value)
        assert type(found) is type(decode("members", key, value))


def test_a_repeated_announcement_is_not_read_again():
    announcements = RepeatedAnnouncements()
    announcements.decode("members", *encode(FIRST))
    with patch.object(repeated_announcements, "decode", side_effect=AssertionError):
        for number in (10, 11, 1000):
            record = replace(FIRST, heartbeat=number)
            assert announcements.decode("members", *encode(record)) == record


def test_another_field_of_the_same_name_keeps_an_announcement_from_being_a_pattern():
    key, value = encode(FIRST)
    document = {"also": {"heartbeat": 9}, **json.loads(value)}
    first = json.dumps(document, separators=(",", ":")).encode()
    second = first.replace(b'{"heartbeat":9}', b'{"heartbeat":12}')
    announcements = RepeatedAnnouncements()
    announcements.decode("members", key, first)
    assert announcements.decode("members", key, second).heartbeat == 9


@pytest.mark.parametrize("value", [None, b"{"])
def test_what_is_no_announcement_ends_the_pattern(value):
    announcements = RepeatedAnnouncements()
    key, first = encode(FIRST)
    announcements.decode("members", key, first)
    found = announcements.decode("members", key, value)
    assert found == (Tombstone(FIRST.key) if value is None else decode("members", key, value))
    assert announcements.decode("members", key, first) == FIRST


def test_other_records_are_decoded_as_ever():
    record = topic()
    assert RepeatedAnnouncements().decode("metadata", *encode(record)) == record


def test_no_more_members_are_remembered_than_allowed():
    announcements = RepeatedAnnouncements(most_members=2)
    for number in range(5):
        announcements.decode("members", *encode(replace(FIRST, instance=f"m{number}")))
    assert len(announcements._last) == 2
