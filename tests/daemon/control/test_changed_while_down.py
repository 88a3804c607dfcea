"""Transcripts of members that changed while no daemon ran: the next one plans for them."""

import pytest
from msgspec.structs import replace

from levelwind.assignors.protocol.records import GroupRecord
from levelwind_testing.control.play import begun
from levelwind_testing.records import member, topic


def planned(*members, strategy="lag"):
    play = begun(topic(), strategy=strategy)
    play.receive("metadata", topic("u"))
    play.join(*members)
    play.wait(3)
    return play


def test_a_subscription_that_a_daemon_did_not_see_change_is_planned_for():
    play = planned(member("m0", topics=("t", "u")), member("m1", topics=("t",)))
    play.stop()
    widened = replace(play.members["m1", "i1"], topics=("t", "u"))
    play.join(widened)
    play.restart()
    play.wait(5)
    assert len(play.plans) == 2
    assert set(play.members["m1", "i1"].owned) == {"t", "u"}


def test_a_priority_that_a_daemon_did_not_see_change_is_planned_for():
    play = planned(member("m0"), member("m1"), strategy="failover")
    assert play.owned() == {"m0": "0-3", "m1": ""}
    play.stop()
    play.join(replace(play.members["m1", "i1"], priority=7))
    play.restart()
    play.wait(5)
    assert play.owned() == {"m0": "", "m1": "0-3"}


@pytest.mark.parametrize("topics", [("t", "u"), ("u", "t"), ("t", "u", "t")])
def test_the_same_subscription_in_another_order_is_no_change(topics):
    play = planned(member("m0", topics=("t", "u")), member("m1", topics=("t", "u")))
    play.stop()
    play.join(replace(play.members["m1", "i1"], topics=topics))
    play.restart()
    play.wait(5)
    assert len(play.plans) == 1


def test_the_plan_of_an_older_planner_without_subscriptions_stays():
    play = planned(member("m0"), member("m1"))
    play.written = [
        (kind, replace(record, members=tuple(replace(m, topics=None) for m in record.members)))
        if isinstance(record, GroupRecord)
        else (kind, record)
        for kind, record in play.written
    ]
    play.restart()
    play.wait(5)
    assert len(play.plans) == 1
