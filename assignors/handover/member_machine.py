"""Member's side of the hand-over, pure: `step(member, event, now) -> (member, effects)`.

A member applies the newest assignment of its own incarnation. It first gives up what it no longer
owns, acknowledges only when that is finished and its commits are decided, then starts what is new.

Guarantees: what a member announces as owned is everything that it may be using, from before it
starts a partition until after it has stopped. It starts nothing without a lease, and joins again as
another incarnation once its lease is over.

Effects are orders to a shell, which carries them out one after another and answers each `Revoke`,
`Grant` and `Lose` with the `…Finished` event, or a `Grant` with `GrantFailed`. Between two
ticks the shell's own threads ask the lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.handover.member_events import (
    Announce,
    AnnouncementAcked,
    AssignmentDeleted,
    AssignmentReceived,
    AssignmentRejected,
    CommitsEnded,
    Event,
    Grant,
    GrantFailed,
    GrantFinished,
    LeaveRequested,
    Lose,
    LoseFinished,
    PollOverdue,
    ReadConfirmed,
    Retire,
    Revoke,
    RevokeFinished,
    Started,
    Tick,
    WeightChanged,
)
from levelwind.assignors.handover.member_state import (
    Granting,
    Losing,
    MemberMachine,
    Phase,
    Revoking,
)
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import Nack

if TYPE_CHECKING:
    from levelwind.assignors.handover.lease import Lease
    from levelwind.assignors.handover.member_events import Effects, PartitionSet
    from levelwind.assignors.protocol.records import MemberAssignment, MemberState


def step(  # noqa: C901, PLR0912 - one arm for each event
    member: MemberMachine, event: Event, now: float
) -> tuple[MemberMachine, Effects]:
    """Apply an event: the next state, and the effects to carry out in this order."""
    if isinstance(event, WeightChanged):
        return _weigh(member, event, now)
    if member.phase is Phase.LEFT or (
        member.phase is Phase.LOST and not isinstance(event, LoseFinished)
    ):
        return _while_lost_or_left(member, event)
    match event:
        case Started():
            return _announce(member, now)
        case Tick():
            return _tick(member, now)
        case ReadConfirmed(asked_at):
            if member.unreadable:
                return member, ()
            return _renew(member, member.lease.read_confirmed(asked_at, now), now)
        case AnnouncementAcked(sent_at):
            return _renew(member, member.lease.announcement_acked(sent_at, now), now)
        case AssignmentReceived(record):
            return _receive(member, record, now)
        case AssignmentDeleted():
            return _lose(member, "assignment_deleted")
        case AssignmentRejected(epoch, code):
            nack = Nack(epoch=epoch, code=code)
            since = member.unreadable_since if member.unreadable else now
            unreadable = replace(member, nack=nack, unreadable=True, unreadable_since=since)
            return _announce(unreadable, now)
        case RevokeFinished():
            return _revoke_finished(member, now)
        case GrantFinished():
            return _grant_finished(member, now)
        case GrantFailed(partitions):
            return _grant_failed(member, partitions, now)
        case LoseFinished(incarnation, no_commit_in_flight):
            return _rejoin(member, incarnation, now, no_commit_in_flight=no_commit_in_flight)
        case PollOverdue():
            return _lose(member, "poll_overdue")
        case CommitsEnded():
            return _lose(member, "fenced")
        case LeaveRequested():
            return _take_up_next(replace(member, leaving=True), now)


def _while_lost_or_left(member: MemberMachine, event: Event) -> tuple[MemberMachine, Effects]:
    # A lost member announces nothing until everything is dropped: it could pass for a live one.
    return (
        (replace(member, leaving=True), ()) if isinstance(event, LeaveRequested) else (member, ())
    )


def _weigh(
    member: MemberMachine, event: WeightChanged, now: float
) -> tuple[MemberMachine, Effects]:
    """Take another capacity or priority, and announce it where the member announces itself."""
    profile = replace(member.profile, capacity=event.capacity, priority=event.priority)
    changed = replace(member, profile=profile)
    silent = member.phase in (Phase.LOST, Phase.LEFT) or member.announced_at is None
    return (changed, ()) if silent or profile == member.profile else _announce(changed, now)


def _tick(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    if member.lease.lapsed(now) or _hopeless(member, now):
        return _lose(member, "lease_over")
    if member.announced_at is not None and now - member.announced_at >= member.timers.heartbeat:
        return _announce(member, now)
    return member, ()


def _hopeless(member: MemberMachine, now: float) -> bool:
    """Whether the lease has not begun, and cannot begin over a record that could not be read.

    That record may have been the eviction of this life. As long as the member goes on to announce
    itself, the planner frees nothing of what it granted.
    """
    waited = now - member.unreadable_since
    return member.unreadable and not member.lease.begun and waited >= member.timers.hold


def _renew(member: MemberMachine, lease: Lease, now: float) -> tuple[MemberMachine, Effects]:
    """Renew the lease; a record that waited for it is applied."""
    return _take_up_next(replace(member, lease=lease), now)


def _receive(
    member: MemberMachine, record: MemberAssignment, now: float
) -> tuple[MemberMachine, Effects]:
    if record.state == "evicted":
        # An eviction holds whatever its epoch: an incarnation is never reinstated, and a planner
        # that lost its topic starts its epochs again from the beginning.
        return _lose(member, "evicted")
    epochs = (record.planner_epoch, record.member_epoch)
    if epochs <= member.newest_epochs:
        return member, ()
    received = replace(member, newest_epochs=epochs, waiting=record, nack=None, unreadable=False)
    return _take_up_next(received, now)


def _take_up_next(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    """Start leaving, or apply the waiting record, unless work is in progress."""
    if member.work is not None:
        return member, ()
    if member.leaving:
        return _revoke(member, member.owned, None, now)
    record = member.waiting
    if record is None or (
        # Only the grants of this record are left, and they wait for the lease.
        (record.planner_epoch, record.member_epoch) == member.acked_epochs
        and not member.lease.deliverable(now)
    ):
        return member, ()
    member = replace(member, waiting=None)
    return _revoke(member, member.owned - ranges.pairs(record.assigned), record, now)


def _revoke(
    member: MemberMachine, partitions: PartitionSet, record: MemberAssignment | None, now: float
) -> tuple[MemberMachine, Effects]:
    if not partitions:
        return _after_revocation(member, partitions, record, now)
    return replace(member, phase=Phase.REVOKING, work=Revoking(partitions, record)), (
        Revoke(partitions),
    )


def _revoke_finished(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    work = member.work
    if not isinstance(work, Revoking):
        return member, ()
    return _after_revocation(member, work.partitions, work.record, now)


def _after_revocation(
    member: MemberMachine, partitions: PartitionSet, record: MemberAssignment | None, now: float
) -> tuple[MemberMachine, Effects]:
    """Acknowledge, then grant what is new, unless a newer record is waiting."""
    member = replace(member, work=None, owned=member.owned - partitions)
    if record is None:
        return _leave(member, now)
    epochs = (record.planner_epoch, record.member_epoch)
    announced: Effects = ()
    if partitions or member.acked_epochs != epochs:
        member = replace(member, phase=Phase.ACTIVE, acked_epochs=epochs)
        member, announced = _announce(member, now)
    if member.leaving or member.waiting is not None:
        member, effects = _take_up_next(member, now)
        return member, (*announced, *effects)
    new = ranges.pairs(record.assigned) - member.owned
    if not new:
        return member, announced
    if not member.lease.deliverable(now):
        return replace(member, waiting=record), announced
    from_begin = frozenset(
        (topic, number) for topic, number in new if number >= record.new_from.get(topic, number + 1)
    )
    granting = replace(member, work=Granting(new), owned=member.owned | new)
    return granting, (*announced, Grant(new, from_begin))


def _grant_finished(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    if not isinstance(member.work, Granting):
        return member, ()
    member, announced = _announce(replace(member, work=None), now)
    member, effects = _take_up_next(member, now)
    return member, (*announced, *effects)


def _grant_failed(
    member: MemberMachine, partitions: PartitionSet, now: float
) -> tuple[MemberMachine, Effects]:
    """Report the partitions of a grant that could not be started: the planner takes them back."""
    work = member.work
    if not isinstance(work, Granting):
        return member, ()
    failed = work.partitions & partitions
    nack = None if member.grant_superseded else Nack(epoch=member.acked_epoch, code="start-failed")
    member = replace(member, work=None, owned=member.owned - failed, nack=nack or member.nack)
    member, announced = _announce(member, now)
    member, effects = _take_up_next(member, now)
    return member, (*announced, *effects)


def _lose(member: MemberMachine, reason: str) -> tuple[MemberMachine, Effects]:
    losing = Losing(commit_undecided=isinstance(member.work, Revoking))
    return replace(member, phase=Phase.LOST, work=losing, waiting=None), (
        Lose(member.owned, reason),
    )


def _rejoin(
    member: MemberMachine, incarnation: str, now: float, *, no_commit_in_flight: bool
) -> tuple[MemberMachine, Effects]:
    work = member.work
    if not isinstance(work, Losing):
        return member, ()
    former = replace(member, owned=frozenset(), work=None)
    # While a commit may still arrive, no release is announced: the planner waits that out.
    farewell: Effects = ()
    if no_commit_in_flight and not work.commit_undecided:
        former, farewell = _leave(former, now)
    if member.leaving:
        return replace(former, phase=Phase.LEFT), farewell
    successor = MemberMachine.create(
        profile=member.profile, timers=member.timers, incarnation=incarnation
    )
    successor, announced = _announce(successor, now)
    return successor, (*farewell, *announced)


def _leave(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    member, announced = _announce(replace(member, phase=Phase.LEFT), now)
    return member, (*announced, Retire(member.key))


def _announce(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    state: dict[Phase, MemberState] = {Phase.JOINING: "joining", Phase.LEFT: "left"}
    member = replace(member, heartbeat=member.heartbeat + 1, announced_at=now)
    return member, (Announce(member.record(state.get(member.phase, "active"))),)
