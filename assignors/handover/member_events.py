"""What a member is told, and what it orders: both sides of its state machine, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import Key, MemberAssignment, MemberRecord

CommitOutcome: TypeAlias = Literal["committed", "refused", "unknown"]
"""Of the commits of what was given up: only after an unknown one may a commit still arrive."""
PartitionSet: TypeAlias = "frozenset[TopicPartition]"


# What happens.


@dataclass(frozen=True, slots=True)
class Started:
    """The shell can hear the planner; the member joins."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class AssignmentReceived:
    """A record about this incarnation."""

    record: MemberAssignment


@dataclass(frozen=True, slots=True)
class AssignmentDeleted:
    """A tombstone for this incarnation."""


@dataclass(frozen=True, slots=True)
class AssignmentRejected:
    """A record about this incarnation that could not be read: the last good state is kept."""

    epoch: int
    code: str


@dataclass(frozen=True, slots=True)
class RevokeFinished:
    """Everything of the last `Revoke` has stopped, and its commit has this outcome."""

    outcome: CommitOutcome


@dataclass(frozen=True, slots=True)
class GrantFinished:
    """Everything of the last `Grant` is being read."""


@dataclass(frozen=True, slots=True)
class LoseFinished:
    """Everything is dropped; `incarnation` is the name of the next life.

    `no_commit_in_flight`: no commit of the old life can arrive any more.
    """

    incarnation: str
    no_commit_in_flight: bool


@dataclass(frozen=True, slots=True)
class PollOverdue:
    """The application did not come for its records for too long."""


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The application closes the consumer."""


Event: TypeAlias = (
    Started
    | Tick
    | AssignmentReceived
    | AssignmentDeleted
    | AssignmentRejected
    | RevokeFinished
    | GrantFinished
    | LoseFinished
    | PollOverdue
    | LeaveRequested
)

# What is to be done.


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
    """Pause, finish the work in flight, commit, unassign."""

    partitions: PartitionSet


@dataclass(frozen=True, slots=True)
class Grant:
    """Fetch the committed offsets, now, and start there."""

    partitions: PartitionSet


@dataclass(frozen=True, slots=True)
class Lose:
    """Drop all buffers, unassign, and commit nothing."""

    partitions: PartitionSet
    reason: str


Effect: TypeAlias = Announce | Retire | Revoke | Grant | Lose
Effects: TypeAlias = tuple[Effect, ...]
