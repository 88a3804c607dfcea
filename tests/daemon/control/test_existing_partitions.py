"""Partitions that members announce: those that exist, and those that the ledger names."""

import pytest

from levelwind.daemon.control.boundary.control_events import RecordReceived, RecordsReceived
from levelwind.daemon.control.members.existing_partitions import (
    UNKNOWN_PARTITIONS,
    existing_only,
)
from levelwind_testing.control.play import begun
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


def owner_of_all():
    """A control with one member that owns the whole topic, and the member's last announcement."""
    play = begun(topic())
    play.join(member("m0"))
    play.wait(6)
    (live,) = play.state.groups["g"].live.values()
    assert live.record.owned == {"t": (0, 1, 2, 3)}
    return play, live.record


def owned_after(play, *records):
    """What the member owns after records that are read together."""
    received = tuple(RecordReceived(kind=kind, record=record) for kind, record in records)
    play._do(RecordsReceived(records=received))
    (live,) = play.state.groups["g"].live.values()
    return live.record.owned


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("before", [(), (("metadata", topic("u")),)], ids=["", "another topic"])
def test_a_repeated_announcement_is_held_to_the_layouts_of_now(together, before):
    play, record = owner_of_all()
    shrunk = ("metadata", topic(racks=((), ())))
    repeat = ("members", record)
    assert owned_after(play, repeat, repeat) == record.owned
    if together:
        owned_after(play, *before, repeat, shrunk)
    else:
        owned_after(play, *before, repeat)
        owned_after(play, shrunk)
    assert owned_after(play, repeat) == {"t": (0, 1)}
