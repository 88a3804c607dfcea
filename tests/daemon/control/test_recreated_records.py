"""Transcripts of levelwind's topics that are made anew while the members live on."""

import pytest

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import MemberAssignment, PlannerRecord
from levelwind_testing.control.play import TIMERS, Play
from levelwind_testing.records import member, topic

BOUND_SECONDS = TIMERS.dead_after + TIMERS.grant + 5


def before(*members, partitions=4):
    """Members that have followed a planner whose epoch and group epochs are high."""
    play = Play()
    play.start(PlannerRecord(planner_epoch=6, instance="d0", started_at=1))
    play.receive("metadata", topic(racks=((),) * partitions))
    for record in members:
        play.join(record)
        play.wait(5)
    assert max(r.member_epoch for r in play.log if isinstance(r, MemberAssignment)) >= 3
    return play


def made_anew(play, partitions=4):
    """A daemon that starts on empty topics, and the members of the one before."""
    after = Play(now=play.now, members=dict(play.members), rejoining=True)
    after.start(topic(racks=((),) * partitions))
    return after


def test_everything_is_owned_again_after_the_topics_were_made_anew_under_live_members():
    play = before(member("m0"), member("m1"), member("m2"))
    after = made_anew(play)
    after.wait(BOUND_SECONDS)
    assert after.owned_pairs() == [("t", number) for number in range(4)]
    assert len({p for r in after.members.values() for p in ranges.pairs(r.owned)}) == 4


def test_a_member_that_owned_nothing_follows_the_new_planner():
    play = before(member("m0"), member("m1"), member("m2"), member("idle"), partitions=3)
    (idle,) = (key for key, record in play.members.items() if not record.owned)
    for key in list(play.members):
        if key != idle:
            play.kill(*key)
    after = made_anew(play, partitions=3)
    after.wait(10)
    assert after.owned() == {idle[0]: ""}, "the others may live, and use their partitions"
    after.wait(BOUND_SECONDS - 10)
    assert after.owned() == {idle[0]: "0-2"}
    assert after.logged("group.records_lost")
    assert [fields["planner_epoch"] for fields in after.logged("planner.epoch_raised")] == [8]


def test_time_in_which_the_daemon_reads_nothing_does_not_end_the_wait_after_lost_records():
    play = before(member("m0"), member("idle"), partitions=1)
    (busy,) = (key for key, record in play.members.items() if record.owned)
    play.kill(*busy)
    after = made_anew(play, partitions=1)
    after.wait(10)
    assert after.logged("group.records_lost")
    after.interrupted = True
    after.wait(2 * BOUND_SECONDS)
    after.join(member("late"))
    after.wait(10)
    assert set(after.owned().values()) == {""}, "what the other announced is not read yet"
    after.interrupted = False
    after.wait(BOUND_SECONDS)
    assert sorted(after.owned().values()) == ["", "0"]


@pytest.mark.parametrize("owned", [{}, {"t": (0,)}])
def test_also_a_farewell_shows_that_the_records_of_a_planner_are_lost(owned):
    play = Play()
    play.start(topic())
    left = member("m0", state="left", planner_epoch=6, acked=3, owned=owned)
    play.receive("members", left)
    play.join(member("m1"))
    play.wait(TIMERS.grant - 3)
    assert play.owned() == {"m1": ""}
    play.wait(9)
    assert play.owned()["m1"]


def test_a_start_leads_above_the_epochs_that_members_announce():
    play = Play()
    play.start(member("m0", state="active", planner_epoch=41, acked=9))
    assert play.log[0].planner_epoch == 42


def test_an_old_acknowledgement_frees_nothing_of_the_new_planner():
    play = Play()
    play.start(topic())
    play.join(member("m0", state="active", planner_epoch=6, acked=400))
    play.wait(3)
    grant = [r for r in play.log if isinstance(r, MemberAssignment)][-1]
    assert grant.member_epoch > 400


def test_an_epoch_that_no_planner_reaches_raises_nothing():
    play = Play()
    play.start(topic())
    play.join(member("bad", state="active", planner_epoch=2**40, acked=2**40))
    play.join(member("m0"))
    play.wait(3)
    newest = [r for r in play.log if isinstance(r, MemberAssignment)][-1]
    assert (newest.planner_epoch, newest.member_epoch) < (10, 10)
    assert play.owned()["m0"]
