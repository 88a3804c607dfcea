"""Transcripts of the member's state machine."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.member_machine import step
from levelwind.assignors.handover.member_state import MemberMachine, MemberProfile, Phase
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberAssignment, Nack

P0, P1, P2 = ("t", 0), ("t", 1), ("t", 2)
TIMERS = Timers()


class MemberTranscript:
    """A member that is sent events, its clock, and its lease, renewed before every event."""

    def __init__(self, *, renewing=True):
        profile = MemberProfile(
            group="g", instance="i", topics=("t",), rack="a", client="c", client_version="1"
        )
        self.member = MemberMachine.create(profile=profile, timers=TIMERS, incarnation="one")
        self.now = 100.0
        self.renewing = renewing

    def __call__(self, event, *, after=0.0):
        if self.renewing:
            self.renew(at=self.now + after)
        return self.send(event, after=after)

    def renew(self, *, at):
        for renewal in (ev.AnnouncementAcked(at), ev.ReadConfirmed(at)):
            self.member, _ = step(self.member, renewal, at)

    def send(self, event, *, after=0.0):
        self.now += after
        self.member, effects = step(self.member, event, self.now)
        return list(effects)

    def assign(self, epoch, *numbers, planner=1, state="active"):
        assigned = {"t": numbers} if numbers else {}
        return self(ev.AssignmentReceived(record(epoch, assigned, planner=planner, state=state)))


def record(epoch, assigned, *, planner=1, state="active"):
    return MemberAssignment(
        group="g",
        instance="i",
        incarnation="one",
        planner_epoch=planner,
        group_epoch=epoch,
        member_epoch=epoch,
        state=state,
        assigned=assigned,
        pending={},
        revoking={},
        rack="a",
        capacity=1.0,
        reason="",
    )


def announced_state(effect):
    assert isinstance(effect, ev.Announce)
    return effect.record.state, effect.record.acked_epoch, effect.record.owned.get("t", ())


@pytest.fixture
def transcript():
    transcript = MemberTranscript()
    transcript(ev.Started())
    return transcript


@pytest.fixture
def owner(transcript):
    """A member that owns P0 and P1 as of epoch 5."""
    transcript.assign(5, 0, 1)
    transcript(ev.GrantFinished())
    return transcript


def test_a_starting_member_announces_that_it_joins_and_owns_nothing():
    (announced,) = MemberTranscript()(ev.Started())
    assert announced_state(announced) == ("joining", 0, ())
    assert announced.record.key == ("m", "g", "i", "one")


def test_the_first_assignment_is_acknowledged_then_granted_then_announced(transcript):
    announced, grant = transcript.assign(5, 0, 1)
    assert announced_state(announced) == ("active", 5, ())
    assert grant == ev.Grant(frozenset({P0, P1}))
    (announced,) = transcript(ev.GrantFinished())
    assert announced_state(announced) == ("active", 5, (0, 1))


def test_new_partitions_of_a_grant_are_named_with_it(transcript):
    assigned = replace(record(5, {"t": (0, 1, 2)}), new_from={"t": 1, "u": 0})
    *_, grant = transcript(ev.AssignmentReceived(assigned))
    assert grant == ev.Grant(frozenset({P0, P1, P2}), new=frozenset({P1, P2}))


def test_a_partition_is_given_up_before_that_is_acknowledged_and_before_another_is_granted(owner):
    assert owner.assign(6, 1, 2) == [ev.Revoke(frozenset({P0}))]
    assert owner.member.phase is Phase.REVOKING
    (heartbeat,) = owner(ev.Tick(), after=TIMERS.heartbeat)
    assert announced_state(heartbeat) == ("active", 5, (0, 1)), (
        "the partition is announced as owned until it has stopped"
    )
    announced, grant = owner(ev.RevokeFinished())
    assert announced_state(announced) == ("active", 6, (1,))
    assert grant == ev.Grant(frozenset({P2}))
    assert owner.member.phase is Phase.ACTIVE


@pytest.mark.parametrize("epochs", [{"epoch": 5}, {"epoch": 4}, {"epoch": 9, "planner": 0}])
def test_a_stale_record_is_ignored(owner, epochs):
    assert owner.assign(epochs.pop("epoch"), 2, **epochs) == []
    assert owner.member.owned == {P0, P1}


def test_a_newer_planners_record_counts_even_if_its_epoch_is_lower(owner):
    assert owner.assign(1, 1, planner=2) == [ev.Revoke(frozenset({P0}))]


def test_a_record_that_changes_nothing_is_acknowledged(owner):
    (announced,) = owner.assign(6, 0, 1)
    assert announced_state(announced) == ("active", 6, (0, 1))


def test_records_that_come_while_one_is_applied_wait_and_only_the_newest_counts(owner):
    owner.assign(6, 1)
    assert owner.assign(7, 0, 1, 2) == []
    assert owner.assign(8, 2) == []
    announced, revoke = owner(ev.RevokeFinished())
    assert announced_state(announced) == ("active", 6, (1,))
    assert revoke == ev.Revoke(frozenset({P1}))
    announced, grant = owner(ev.RevokeFinished())
    assert announced_state(announced) == ("active", 8, ())
    assert grant == ev.Grant(frozenset({P2}))


def test_a_revocation_waits_for_the_grant_before_it(transcript):
    transcript.assign(5, 0)
    assert transcript.assign(6) == []
    announced, revoke = transcript(ev.GrantFinished())
    assert announced_state(announced) == ("active", 5, (0,))
    assert revoke == ev.Revoke(frozenset({P0}))


def test_a_partition_that_is_being_granted_is_already_owned(transcript):
    transcript.assign(5, 0)
    (heartbeat,) = transcript(ev.Tick(), after=TIMERS.heartbeat)
    assert announced_state(heartbeat) == ("active", 5, (0,))


def test_heartbeats_count_and_come_in_time(transcript):
    assert transcript(ev.Tick(), after=TIMERS.heartbeat - 0.1) == []
    (first,) = transcript(ev.Tick(), after=0.1)
    (second,) = transcript(ev.Tick(), after=TIMERS.heartbeat)
    assert second.record.heartbeat == first.record.heartbeat + 1


def test_another_capacity_is_announced_at_once_and_kept_in_the_next_life(owner):
    (announced,) = owner(ev.WeightChanged(2.5, 7))
    assert announced_state(announced) == ("active", 5, (0, 1))
    assert (announced.record.capacity, announced.record.priority) == (2.5, 7)
    assert owner(ev.WeightChanged(2.5, 7)) == []
    owner(ev.PollOverdue())
    assert owner(ev.WeightChanged(0.5, 7)) == [], "a lost member announces nothing"
    *_, hello = owner(ev.LoseFinished("two", no_commit_in_flight=True))
    assert (hello.record.capacity, hello.record.priority) == (0.5, 7)


def test_a_member_that_has_not_started_announces_nothing():
    transcript = MemberTranscript()
    assert transcript(ev.WeightChanged(2.0, 0)) == []
    (announced,) = transcript(ev.Started())
    assert announced.record.capacity == 2.0


LOSSES = [
    ev.AssignmentDeleted(),
    ev.PollOverdue(),
    ev.CommitsEnded(),
    ev.AssignmentReceived(record(9, {}, state="evicted")),
]


@pytest.mark.parametrize("event", LOSSES)
def test_a_lost_member_drops_everything_announces_nothing_and_joins_again(owner, event):
    (lose,) = owner(event)
    assert lose.partitions == {P0, P1}
    assert owner.member.phase is Phase.LOST
    assert owner(ev.Tick(), after=100.0) == []
    assert owner.assign(10, 0) == []
    farewell, retire, hello = owner(ev.LoseFinished("two", no_commit_in_flight=True))
    assert announced_state(farewell) == ("left", 5, ())
    assert farewell.record.incarnation == "one"
    assert retire == ev.Retire(("m", "g", "i", "one"))
    assert announced_state(hello) == ("joining", 0, ())
    assert hello.record.incarnation == "two"


def test_a_member_lost_with_a_commit_in_flight_announces_no_release(owner):
    owner(ev.PollOverdue())
    (hello,) = owner(ev.LoseFinished("two", no_commit_in_flight=False))
    assert hello.record.incarnation == "two"


@pytest.mark.parametrize("finished", [False, True])
def test_a_member_lost_during_a_revocation_announces_no_release(owner, finished):
    owner.assign(6, 1)
    owner(ev.AssignmentDeleted())
    if finished:
        assert owner(ev.RevokeFinished()) == [], "it comes too late"
    (hello,) = owner(ev.LoseFinished("two", no_commit_in_flight=True))
    assert hello.record.incarnation == "two"


def test_a_leaving_member_gives_up_everything_then_announces_it(owner):
    assert owner(ev.LeaveRequested()) == [ev.Revoke(frozenset({P0, P1}))]
    announced, retire = owner(ev.RevokeFinished())
    assert announced_state(announced) == ("left", 5, ())
    assert retire == ev.Retire(("m", "g", "i", "one"))
    assert owner.member.phase is Phase.LEFT
    assert owner.assign(6, 0) == []
    assert owner(ev.Tick(), after=100.0) == []


def test_a_leaving_member_finishes_a_grant_first(transcript):
    transcript.assign(5, 0)
    assert transcript(ev.LeaveRequested()) == []
    announced, revoke = transcript(ev.GrantFinished())
    assert announced_state(announced) == ("active", 5, (0,))
    assert revoke == ev.Revoke(frozenset({P0}))


def test_a_leaving_member_applies_no_other_record(owner):
    owner(ev.LeaveRequested())
    assert owner.assign(6, 2) == []
    announced, _ = owner(ev.RevokeFinished())
    assert announced_state(announced) == ("left", 5, ())


def test_a_member_without_partitions_leaves_at_once(transcript):
    announced, _ = transcript(ev.LeaveRequested())
    assert announced_state(announced) == ("left", 0, ())


def test_a_lost_member_that_leaves_does_not_join_again(owner):
    owner(ev.PollOverdue())
    assert owner(ev.LeaveRequested()) == []
    farewell, _ = owner(ev.LoseFinished("two", no_commit_in_flight=True))
    assert announced_state(farewell) == ("left", 5, ())
    assert owner.member.phase is Phase.LEFT


def test_a_record_that_cannot_be_read_is_refused_and_the_last_good_one_kept(owner):
    (announced,) = owner(ev.AssignmentRejected(7, "unknown-v"))
    assert announced_state(announced) == ("active", 5, (0, 1))
    assert announced.record.nack == Nack(epoch=7, code="unknown-v")
    (announced,) = owner.assign(8, 0, 1)
    assert announced.record.nack is None


@pytest.mark.parametrize(
    "event",
    [
        ev.RevokeFinished(),
        ev.GrantFinished(),
        ev.LoseFinished("two", no_commit_in_flight=True),
    ],
)
def test_an_answer_that_nobody_waits_for_is_ignored(owner, event):
    before = owner.member
    assert owner(event) == []
    assert owner.member == before
