"""Cost of one announcement in a group of many members, counted in what the control looks at."""

from contextlib import contextmanager
from unittest.mock import patch

import pytest

from levelwind.assignors.handover.holding import Holding
from levelwind.assignors.protocol.records import MemberAssignment
from levelwind.daemon.control.boundary.control_effects import Publish
from levelwind.daemon.control.boundary.control_events import (
    RecordReceived,
    RecordsReceived,
    together,
)
from levelwind.daemon.control.context import Clock
from levelwind.daemon.control.controller import step
from levelwind_testing.control.play import begun
from levelwind_testing.records import member, topic


def settled(members):
    """A group of as many members, each of which has what is its own."""
    play = begun(topic(racks=((),) * (members + 2)), strategy="sticky")
    play.join(*(member(f"m{number:03}") for number in range(members)))
    play.wait(6)
    assert play.state.groups["g"].ledger.settled
    return play


@contextmanager
def counting():
    """Count the holdings for which a record is made up."""
    looked_at = []
    original = Holding.describes

    def describes(holding, record):
        looked_at.append(record)
        return original(holding, record)

    with patch.object(Holding, "describes", describes):
        yield looked_at


@pytest.mark.parametrize("members", [10, 60])
def test_an_announcement_costs_no_more_in_a_large_group(members):
    play = settled(members)
    owned = play.members["m003", "i1"].owned
    with counting() as looked_at:
        play.update("m003", "i1", starting=owned)
    assert {record.instance for record in looked_at} == {"m003"}
    with counting() as looked_at:
        play.update("m003", "i1", starting={})
        play.wait(6)
    assert {record.instance for record in looked_at} == {"m003"}, "heartbeats change nothing"


@pytest.mark.parametrize("members", [10, 60])
def test_a_plan_after_a_departure_costs_those_that_it_concerns(members):
    play = settled(members)
    with counting() as looked_at:
        play.leave("m003", "i1")
        play.wait(3)
    names = {record.instance for record in looked_at}
    assert "m003" not in names
    assert len(names) <= 2, "the partition of the member that left has one or two new owners"


def acknowledgements(play, records):
    """What members announce that apply these records at once."""
    return [
        RecordReceived(
            kind="members",
            record=member(
                record.instance,
                incarnation=record.incarnation,
                state="active",
                acked=record.member_epoch,
                owned=record.assigned,
                heartbeat=2,
            ),
        )
        for record in records
    ]


def test_acknowledgements_that_are_read_together_make_one_decision():
    play = begun(topic(racks=((),) * 12), strategy="sticky")
    first = [member(f"m{number:03}") for number in range(6)]
    play.unresponsive.update((record.instance, record.incarnation) for record in first)
    play.join(*first)
    play.wait(3)
    newest = {record.key: record for record in play.log if isinstance(record, MemberAssignment)}
    (event,) = together(acknowledgements(play, newest.values()))
    assert isinstance(event, RecordsReceived)
    state, effects = step(play.state, event, Clock(now=play.now, at=0))
    assert state.groups["g"].ledger.settled
    assert [effect.event for effect in effects if not isinstance(effect, Publish)] == [
        "handover.settled"
    ]
