"""The lease as a value, and transcripts of members whose lease begins, ends or is renewed late."""

import pytest

from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.lease import Lease
from levelwind.assignors.handover.member_machine import step
from levelwind.assignors.handover.member_state import MemberMachine, MemberProfile, Phase
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberAssignment, Nack

TIMERS = Timers()
P0, P1, P2 = ("t", 0), ("t", 1), ("t", 2)


def lease(**options):
    return Lease(hold=20.0, guard=5.0, **options)


def begun(at=0.0):
    return lease().read_confirmed(at, at).announcement_acked(at, at)


def test_a_lease_begins_with_a_read_and_an_acknowledged_announcement():
    assert not lease().valid(0.0)
    read = lease().read_confirmed(0.0, 0.0)
    assert not read.valid(0.0)
    assert not read.lapsed(0.0), "what never began cannot lapse"
    assert read.announcement_acked(1.0, 1.0).until == 20.0


def test_the_older_of_the_two_counts():
    renewed = begun().read_confirmed(10.0, 10.0)
    assert renewed.until == 20.0
    assert renewed.announcement_acked(4.0, 10.0).until == 24.0


def test_a_lease_counts_from_the_start_of_what_renewed_it():
    assert begun().read_confirmed(3.0, 15.0).announcement_acked(2.0, 15.0).until == 22.0


def test_a_late_answer_never_shortens_a_lease():
    late = begun(10.0).read_confirmed(3.0, 11.0).announcement_acked(2.0, 11.0)
    assert late.until == 30.0


def test_nothing_is_delivered_within_the_guard_and_nothing_used_past_the_end():
    held = begun()
    assert held.deliverable(14.9)
    assert not held.deliverable(15.0)
    assert held.valid(19.9)
    assert not held.valid(20.0)
    assert held.lapsed(20.0)
    assert (held.remaining(5.0), held.remaining(25.0)) == (15.0, 0.0)


def test_a_lapsed_lease_is_never_renewed():
    for renewal in (Lease.read_confirmed, Lease.announcement_acked):
        assert renewal(begun(), 19.0, 20.0) == begun()


def test_a_lease_does_not_begin_in_the_past():
    slow = lease().read_confirmed(0.0, 0.0).announcement_acked(1.0, 30.0)
    assert not slow.begun
    assert slow.read_confirmed(29.0, 30.0).announcement_acked(29.5, 30.0).until == 49.0


class Owner:
    """A member without renewals of its own accord, its clock, and the effects of each event."""

    def __init__(self):
        profile = MemberProfile(group="g", instance="i", topics=("t",))
        self.member = MemberMachine.create(profile=profile, timers=TIMERS, incarnation="one")
        self.now = 100.0
        self(ev.Started())

    def __call__(self, event, *, after=0.0):
        self.now += after
        self.member, effects = step(self.member, event, self.now)
        return list(effects)

    def renew(self, *, after=0.0):
        self(ev.AnnouncementAcked(self.now + after), after=after)
        return self(ev.ReadConfirmed(self.now))

    def assign(self, epoch, *numbers, state="active"):
        return self(
            ev.AssignmentReceived(
                MemberAssignment(
                    group="g",
                    instance="i",
                    incarnation="one",
                    planner_epoch=1,
                    group_epoch=epoch,
                    member_epoch=epoch,
                    state=state,
                    assigned={"t": numbers} if numbers else {},
                    pending={},
                    revoking={},
                    rack=None,
                    capacity=1.0,
                    reason="",
                )
            )
        )


@pytest.fixture
def owner():
    """A member that owns P0 and P1, with a lease of full length."""
    owner = Owner()
    owner.renew()
    owner.assign(5, 0, 1)
    owner(ev.GrantFinished())
    return owner


def test_a_grant_waits_for_the_lease_and_the_acknowledgement_does_not():
    owner = Owner()
    (announced,) = owner.assign(5, 0)
    assert (announced.record.acked_epoch, announced.record.owned) == (5, {})
    assert owner(ev.AnnouncementAcked(owner.now)) == []
    assert owner(ev.ReadConfirmed(owner.now)) == [ev.Grant(frozenset({P0}))]
    assert owner.member.record("active").starting == {"t": (0,)}
    owner(ev.GrantFinished())
    assert owner.member.record("active").starting == {}


def test_a_suspended_member_starts_nothing_and_gives_up_what_it_must(owner):
    owner.now += TIMERS.hold - TIMERS.guard
    assert owner.member.phase_at(owner.now) is Phase.SUSPENDED
    assert owner.assign(6, 1, 2) == [ev.Revoke(frozenset({P0}))]
    (announced,) = owner(ev.RevokeFinished())
    assert announced.record.owned == {"t": (1,)}
    assert owner.renew() == [ev.Grant(frozenset({P2}))]
    assert owner.member.phase_at(owner.now) is Phase.ACTIVE


def test_a_newer_record_replaces_the_one_that_waits_for_the_lease(owner):
    owner.now += TIMERS.hold - TIMERS.guard
    owner.assign(6, 0, 1, 2)
    (announced,) = owner.assign(7, 0, 1)
    assert announced.record.acked_epoch == 7
    assert owner.renew() == []


def test_a_member_whose_lease_is_over_loses_everything(owner):
    assert owner(ev.Tick(), after=TIMERS.hold - 0.1) != [ev.Lose(frozenset({P0, P1}), "lease_over")]
    assert owner(ev.Tick(), after=0.1) == [ev.Lose(frozenset({P0, P1}), "lease_over")]
    assert owner.member.phase is Phase.LOST


def test_past_its_end_a_lease_cannot_be_renewed_before_the_next_tick(owner):
    owner.renew(after=TIMERS.hold)
    assert owner.member.phase_at(owner.now) is Phase.LOST
    (lose,) = owner(ev.Tick())
    assert lose.reason == "lease_over"


def test_the_next_life_has_no_lease_yet(owner):
    owner(ev.Tick(), after=TIMERS.hold)
    owner(ev.LoseFinished("two", no_commit_in_flight=True))
    assert not owner.member.lease.begun
    assert owner.member.phase_at(owner.now) is Phase.JOINING


@pytest.mark.parametrize("alone", [ev.ReadConfirmed, ev.AnnouncementAcked])
def test_a_member_that_can_only_read_or_only_write_is_lost(owner, alone):
    for _ in range(7):
        owner(alone(owner.now + 3), after=3.0)
    assert owner(ev.Tick())[0].reason == "lease_over"


def test_no_read_renews_the_lease_over_a_record_that_could_not_be_read(owner):
    owner(ev.AssignmentRejected(9, "malformed"), after=3.0)
    owner.renew()
    assert owner.member.lease.until == 100.0 + TIMERS.hold
    owner.assign(10, 0, 1)
    owner.renew()
    assert owner.member.lease.until == owner.now + TIMERS.hold


def test_a_member_without_a_lease_joins_anew_when_a_record_cannot_be_read():
    owner = Owner()
    owner.assign(5, 0, 1)
    owner(ev.AssignmentRejected(6, "unknown-v"), after=1.0)
    owner.renew()
    assert not owner.member.lease.begun
    owner(ev.Tick(), after=TIMERS.hold - 1.0)
    assert owner.member.phase is Phase.ACTIVE
    owner(ev.Tick(), after=1.0)
    assert owner.member.phase is Phase.LOST


def test_a_stale_record_does_not_make_up_for_one_that_could_not_be_read(owner):
    owner(ev.AssignmentRejected(9, "malformed"), after=3.0)
    owner.assign(4, 0, 1)
    owner.renew()
    assert owner.member.lease.until == 100.0 + TIMERS.hold


def test_a_dead_planner_ends_no_lease(owner):
    for _ in range(100):
        owner.renew(after=3.0)
    assert owner.member.phase_at(owner.now) is Phase.ACTIVE


def test_partitions_that_could_not_be_started_are_dropped_and_reported():
    owner = Owner()
    owner.renew()
    owner.assign(5, 0, 1)
    (announced,) = owner(ev.GrantFailed(frozenset({P1})))
    assert announced.record.owned == {"t": (0,)}
    assert announced.record.starting == {}
    assert announced.record.nack == Nack(epoch=5, code="start-failed")
    (announced,) = owner.assign(6, 0)
    assert announced.record.nack is None


def test_a_grant_that_is_taken_back_meanwhile_fails_without_a_report():
    owner = Owner()
    owner.renew()
    owner.assign(5, 0, 1)
    assert not owner.member.grant_superseded
    assert owner.assign(6, 0) == []
    assert owner.member.grant_superseded
    announced, acknowledged, grant = owner(ev.GrantFailed(frozenset({P0, P1})))
    assert announced.record.nack is None
    assert acknowledged.record.acked_epoch == 6
    assert grant == ev.Grant(frozenset({P0}))


def test_a_member_that_leaves_starts_nothing_more():
    owner = Owner()
    owner.renew()
    owner.assign(5, 0, 1)
    assert owner(ev.LeaveRequested()) == []
    assert owner.member.grant_superseded
    announced, revoke = owner(ev.GrantFailed(frozenset({P1})))
    assert announced.record.nack is None
    assert revoke == ev.Revoke(frozenset({P0}))


def test_a_refused_member_is_granted_partitions_once_the_planner_serves_it():
    owner = Owner()
    owner.renew()
    assert not any(isinstance(effect, ev.Grant) for effect in owner.assign(5, state="refused"))
    assert ev.Grant(frozenset({P0})) in owner.assign(6, 0)
