"""Events that the control takes in. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from assignors.handover.ledger import Incarnation
    from assignors.protocol.records import Record, Tombstone
    from assignors.protocol.topics import TopicKind
    from daemon.control.boundary.control_effects import Rollback


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """All records of levelwind's topics at the start, in the order of each partition's log."""

    records: tuple[tuple[TopicKind, Record | Tombstone], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReceived:
    """One record that was read after the start."""

    kind: TopicKind
    record: Record | Tombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed, and every record that was read before it has been handled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRead:
    """A canary came back from a partition of `levelwind.members`.

    Everything that the partition held when the canary was sent has been handled.
    """

    partition: int
    asked_at: float
    """Boot seconds, taken before the canary was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsFenced:
    """The brokers refuse the transactional commits of an evicted incarnation from now on."""

    group: str
    incarnation: Incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRefused:
    """None of a group's records was published, and to publish them again cannot help."""

    rollback: Rollback
    """The rollback of the refused `Publish`."""
    reason: str
    """Why: a record cannot be encoded, is too large, or is refused by the brokers."""


Event: TypeAlias = (
    Recovered | RecordReceived | Ticked | MembersRead | CommitsFenced | PublishRefused
)
