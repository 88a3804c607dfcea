"""Events and effects of the member's state machine, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import Key, MemberAssignment, MemberRecord

PartitionSet: TypeAlias = "frozenset[TopicPartition]"


# Events.


@dataclass(frozen=True, slots=True)
class Started:
    """The shell reads the assignments from now on; the member joins."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class ReadConfirmed:
    """Every record that stood in the assignments topic at a moment was applied.

    The shell asks for the last stable offset of the member's partition, and sends this event once
    it has read and applied everything below.
    """

    asked_at: float
    """Time before the offset was asked for."""


@dataclass(frozen=True, slots=True)
class AnnouncementAcked:
    """The brokers acknowledged an announcement of this life."""

    sent_at: float
    """Time before the announcement was sent."""


@dataclass(frozen=True, slots=True)
class AssignmentReceived:
    """An assignment of this incarnation was read."""

    record: MemberAssignment


@dataclass(frozen=True, slots=True)
class AssignmentDeleted:
    """A tombstone of this incarnation's assignment was read."""


@dataclass(frozen=True, slots=True)
class AssignmentRejected:
    """An assignment of this incarnation could not be decoded; the last good one stays."""

    epoch: int
    code: str


@dataclass(frozen=True, slots=True)
class RevokeFinished:
    """The partitions of the last `Revoke` are unassigned, and all their commits are decided.

    After a commit of unknown outcome the shell waits until it can no longer arrive. It knows by
    which clocks its client goes.
    """


@dataclass(frozen=True, slots=True)
class GrantFinished:
    """The partitions of the last `Grant` are being read."""


@dataclass(frozen=True, slots=True)
class GrantFailed:
    """Some partitions of the last `Grant` could not be started; the others are being read."""

    partitions: PartitionSet


@dataclass(frozen=True, slots=True)
class LoseFinished:
    """The partitions of the last `Lose` are dropped."""

    incarnation: str
    """Identifier of the member's next life."""
    no_commit_in_flight: bool
    """Whether no commit of the old life can arrive any more."""


@dataclass(frozen=True, slots=True)
class PollOverdue:
    """The application has not polled within `max.poll.interval.ms`."""


@dataclass(frozen=True, slots=True)
class CommitsEnded:
    """The brokers refuse this life's commits for good, or nobody knows what became of the last."""


@dataclass(frozen=True, slots=True)
class WeightChanged:
    """The application gave the member another capacity or priority."""

    capacity: float
    priority: int


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The application closes the consumer."""


Event: TypeAlias = (
    Started
    | Tick
    | ReadConfirmed
    | AnnouncementAcked
    | AssignmentReceived
    | AssignmentDeleted
    | AssignmentRejected
    | RevokeFinished
    | GrantFinished
    | GrantFailed
    | LoseFinished
    | PollOverdue
    | CommitsEnded
    | WeightChanged
    | LeaveRequested
)

# Effects.


@dataclass(frozen=True, slots=True)
class Announce:
    """Write the member's record."""

    record: MemberRecord


@dataclass(frozen=True, slots=True)
class Retire:
    """Write a tombstone for a member's record."""

    key: Key


@dataclass(frozen=True, slots=True)
class Revoke:
    """Pause the partitions, finish work in flight, commit and unassign them."""

    partitions: PartitionSet


@dataclass(frozen=True, slots=True)
class Grant:
    """Fetch the committed offsets, now, and start the partitions there.

    The shell asks the lease before it starts them. It tries for `Timers.start_timeout`, and gives
    up earlier when the grant is superseded (`MemberMachine.grant_superseded`). What cannot be
    started keeps the others from nothing: `GrantFailed` names it alone.
    """

    partitions: PartitionSet
    new: PartitionSet = frozenset()
    """Those that start at their beginning unless something is committed: they did not exist when
    the group's plans began to cover their topic."""


@dataclass(frozen=True, slots=True)
class Lose:
    """Drop all buffers and unassign the partitions; commit nothing."""

    partitions: PartitionSet
    reason: str


Effect: TypeAlias = Announce | Retire | Revoke | Grant | Lose
Effects: TypeAlias = tuple[Effect, ...]
