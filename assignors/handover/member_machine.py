"""Member's side of the hand-over, pure: `step(member, event, now) -> (member, effects)`.

A member applies the newest assignment of its own incarnation. It first gives up what it no longer
owns, acknowledges only when that is finished and its commits are decided, then starts what is new.

Guarantees: what a member announces as owned is everything that it may be using, from before it
starts a partition until after it has stopped.

Effects are orders to a shell, which carries them out one after another and answers each `Revoke`,
`Grant` and `Lose` with the `…Finished` event. Leases will be events too: a renewal, and a `Tick`
past the end of the lease that leads to the same `_lose`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from assignors.handover.member_events import (
    Announce,
    AssignmentDeleted,
    AssignmentReceived,
    AssignmentRejected,
    Event,
    Grant,
    GrantFinished,
    LeaveRequested,
    Lose,
    LoseFinished,
    PollOverdue,
    Retire,
    Revoke,
    RevokeFinished,
    Started,
    Tick,
)
from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import MemberRecord, Nack

if TYPE_CHECKING:
    from assignors.handover.member_events import CommitOutcome, Effects, PartitionSet
    from assignors.handover.timers import Timers
    from assignors.protocol.records import Key, MemberAssignment, MemberState


class Phase(StrEnum):
    """State of a member in the hand-over."""

    JOINING = "joining"
    """The member is announced and has no assignment yet."""
    ACTIVE = "active"
    """The member follows its assignment."""
    REVOKING = "revoking"
    """The member gives up some partitions; the others continue."""
    LOST = "lost"
    """Its partitions may have another owner: the member drops them all, then joins again."""
    LEFT = "left"
    """The member gave up everything and will not join again."""


# Work in progress.


@dataclass(frozen=True, slots=True)
class Revoking:
    """The member waits for `RevokeFinished`."""

    partitions: PartitionSet
    record: MemberAssignment | None
    """The record that is being applied; None when the member leaves."""


@dataclass(frozen=True, slots=True)
class AwaitingCommit:
    """The member waits until a commit of unknown outcome can no longer arrive."""

    partitions: PartitionSet
    record: MemberAssignment | None
    until: float


@dataclass(frozen=True, slots=True)
class Granting:
    """The member waits for `GrantFinished`."""


@dataclass(frozen=True, slots=True)
class Losing:
    """The member waits for `LoseFinished`."""

    commit_undecided: bool
    """Whether a commit of the interrupted revocation may still arrive."""


Work: TypeAlias = Revoking | AwaitingCommit | Granting | Losing


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProfile:
    """Properties that a member announces in each of its lives; see `MemberRecord`."""

    group: str
    instance: str
    topics: tuple[str, ...]
    rack: str | None = None
    priority: int = 0
    capacity: float = 1.0
    client: str = "?"
    client_version: str = "?"
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMachine:
    """State of one member in one life."""

    profile: MemberProfile
    timers: Timers
    incarnation: str
    phase: Phase = Phase.JOINING
    owned: PartitionSet = frozenset()
    """Everything that the member may be using."""
    newest_epochs: tuple[int, int] = (0, 0)
    """(planner_epoch, member_epoch) of the newest record received; it never decreases."""
    acked_epoch: int = 0
    """`member_epoch` of the last record applied; 0 before the first."""
    waiting: MemberAssignment | None = None
    """The newest record, while an older one is still being applied."""
    work: Work | None = None
    """Work that the member waits for before it applies another record."""
    leaving: bool = False
    """Whether the application asked to leave."""
    nack: Nack | None = None
    """The last record that could not be decoded; cleared by the next one that can."""
    heartbeat: int = 0
    """Number of announcements in this life."""
    announced_at: float | None = None
    """Time of the last announcement; None before the first."""

    @property
    def key(self) -> Key:
        """Key of this life's records."""
        return ("m", self.profile.group, self.profile.instance, self.incarnation)

    def record(self, state: MemberState) -> MemberRecord:
        """The announcement that describes the member now."""
        return MemberRecord(
            group=self.profile.group,
            instance=self.profile.instance,
            incarnation=self.incarnation,
            client=self.profile.client,
            client_version=self.profile.client_version,
            topics=self.profile.topics,
            rack=self.profile.rack,
            priority=self.profile.priority,
            capacity=self.profile.capacity,
            state=state,
            acked_epoch=self.acked_epoch,
            owned=ranges.by_topic(self.owned),
            nack=self.nack,
            features=self.profile.features,
            heartbeat=self.heartbeat,
        )


def step(  # noqa: C901 - one arm for each event
    member: MemberMachine, event: Event, now: float
) -> tuple[MemberMachine, Effects]:
    """Apply an event: the next state, and the effects to carry out in this order."""
    if member.phase is Phase.LEFT or (
        member.phase is Phase.LOST and not isinstance(event, LoseFinished)
    ):
        return _while_lost_or_left(member, event)
    match event:
        case Started():
            return _announce(member, now)
        case Tick():
            return _tick(member, now)
        case AssignmentReceived(record):
            return _receive(member, record, now)
        case AssignmentDeleted():
            return _lose(member, "assignment_deleted")
        case AssignmentRejected(epoch, code):
            return _announce(replace(member, nack=Nack(epoch=epoch, code=code)), now)
        case RevokeFinished(outcome):
            return _revoke_finished(member, outcome, now)
        case GrantFinished():
            return _grant_finished(member, now)
        case LoseFinished(incarnation, no_commit_in_flight):
            return _rejoin(member, incarnation, now, no_commit_in_flight=no_commit_in_flight)
        case PollOverdue():
            return _lose(member, "poll_overdue")
        case LeaveRequested():
            return _take_up_next(replace(member, leaving=True), now)


def _while_lost_or_left(member: MemberMachine, event: Event) -> tuple[MemberMachine, Effects]:
    # A lost member announces nothing until everything is dropped: it could pass for a live one.
    return (
        (replace(member, leaving=True), ()) if isinstance(event, LeaveRequested) else (member, ())
    )


def _tick(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    if isinstance(member.work, AwaitingCommit) and now >= member.work.until:
        return _after_revocation(member, member.work.partitions, member.work.record, now)
    if member.announced_at is not None and now - member.announced_at >= member.timers.heartbeat:
        return _announce(member, now)
    return member, ()


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
    return _take_up_next(replace(member, newest_epochs=epochs, waiting=record, nack=None), now)


def _take_up_next(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    """Start leaving, or apply the waiting record, unless work is in progress."""
    if member.work is not None:
        return member, ()
    if member.leaving:
        return _revoke(member, member.owned, None, now)
    if member.waiting is None:
        return member, ()
    record, member = member.waiting, replace(member, waiting=None)
    return _revoke(member, member.owned - ranges.pairs(record.assigned), record, now)


def _revoke(
    member: MemberMachine, partitions: PartitionSet, record: MemberAssignment | None, now: float
) -> tuple[MemberMachine, Effects]:
    if not partitions:
        return _after_revocation(member, partitions, record, now)
    return replace(member, phase=Phase.REVOKING, work=Revoking(partitions, record)), (
        Revoke(partitions),
    )


def _revoke_finished(
    member: MemberMachine, outcome: CommitOutcome, now: float
) -> tuple[MemberMachine, Effects]:
    work = member.work
    if not isinstance(work, Revoking):
        return member, ()
    if outcome == "unknown":
        until = now + member.timers.commit
        return replace(member, work=AwaitingCommit(work.partitions, work.record, until)), ()
    return _after_revocation(member, work.partitions, work.record, now)


def _after_revocation(
    member: MemberMachine, partitions: PartitionSet, record: MemberAssignment | None, now: float
) -> tuple[MemberMachine, Effects]:
    """Acknowledge, then grant what is new, unless a newer record is waiting."""
    member = replace(member, work=None, owned=member.owned - partitions)
    if record is None:
        return _leave(member, now)
    member = replace(member, phase=Phase.ACTIVE, acked_epoch=record.member_epoch)
    member, announced = _announce(member, now)
    if member.leaving or member.waiting is not None:
        member, effects = _take_up_next(member, now)
        return member, (*announced, *effects)
    new = ranges.pairs(record.assigned) - member.owned
    if not new:
        return member, announced
    return replace(member, work=Granting(), owned=member.owned | new), (*announced, Grant(new))


def _grant_finished(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    if not isinstance(member.work, Granting):
        return member, ()
    member, announced = _announce(replace(member, work=None), now)
    member, effects = _take_up_next(member, now)
    return member, (*announced, *effects)


def _lose(member: MemberMachine, reason: str) -> tuple[MemberMachine, Effects]:
    losing = Losing(commit_undecided=isinstance(member.work, Revoking | AwaitingCommit))
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
    successor = MemberMachine(profile=member.profile, timers=member.timers, incarnation=incarnation)
    successor, announced = _announce(successor, now)
    return successor, (*farewell, *announced)


def _leave(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    member, announced = _announce(replace(member, phase=Phase.LEFT), now)
    return member, (*announced, Retire(member.key))


def _announce(member: MemberMachine, now: float) -> tuple[MemberMachine, Effects]:
    state: dict[Phase, MemberState] = {Phase.JOINING: "joining", Phase.LEFT: "left"}
    member = replace(member, heartbeat=member.heartbeat + 1, announced_at=now)
    return member, (Announce(member.record(state.get(member.phase, "active"))),)
