"""Partitions that members announce: those that exist, and those that the ledger names."""

import pytest

from levelwind.daemon.control.members.existing_partitions import (
    UNKNOWN_PARTITIONS,
    existing_only,
)
from levelwind_testing.records import member, topic

TOPICS = {"t": topic()}  # of four partitions


def announced(owned, granted=()):
    record = member("m0", owned={name: tuple(numbers) for name, numbers in owned.items()})
    return existing_only(record, TOPICS, lambda: granted).owned


def test_an_announcement_of_what_exists_is_left_as_it_is():
    record = member("m0", owned={"t": (0, 3)})
    assert existing_only(record, TOPICS, lambda: pytest.fail("not needed")) is record


def test_partitions_beyond_the_end_of_a_topic_are_left_out():
    assert announced({"t": range(1_000_000)}) == {"t": (0, 1, 2, 3)}
    assert announced({"t": range(4, 1_000)}) == {}


def test_of_topics_without_a_layout_only_so_many_partitions_are_believed():
    found = announced({"u": range(UNKNOWN_PARTITIONS), "v": range(5), "t": range(9)})
    assert found == {"u": tuple(range(UNKNOWN_PARTITIONS)), "t": (0, 1, 2, 3)}


def test_what_the_ledger_names_is_never_taken_for_given_up():
    named = UNKNOWN_PARTITIONS + 7
    found = announced({"u": range(2 * UNKNOWN_PARTITIONS)}, granted=[("u", named), ("w", 1)])
    assert found == {"u": (*range(UNKNOWN_PARTITIONS), named)}
