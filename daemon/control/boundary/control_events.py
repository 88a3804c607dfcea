"""Events that the control takes in. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from assignors.handover.ledger import Incarnation
    from assignors.protocol.records import Record, Tombstone
    from assignors.protocol.topics import TopicKind
    from assignors.protocol.unread_lag import UnreadLag
    from daemon.control.boundary.control_effects import Rollback
    from daemon.control.schedule.plan_backlog import PlanBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """All records of levelwind's topics at the start, in the order of each partition's log."""

    records: tuple[tuple[TopicKind, Record | Tombstone], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReceived:
    """One record that was read after the start."""

    kind: TopicKind
    record: Record | Tombstone | UnreadLag


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsReceived:
    """Records that are taken in together: each group is decided about once, after all of them."""

    records: tuple[RecordReceived, ...]
    """In the order of each partition's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed, and every record that was read before it has been handled."""

    budget: PlanBudget | None = None
    """How many plans each step from now on may make; None for as many as are due."""


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
    Recovered
    | RecordReceived
    | RecordsReceived
    | Ticked
    | MembersRead
    | CommitsFenced
    | PublishRefused
)

Posted = TypeVar("Posted")


def together(events: Iterable[Posted]) -> Iterator[Posted | RecordsReceived]:
    """Put records that follow each other into one event, and leave everything in its order.

    A decision costs more than a record, and a thousand members acknowledge a plan at once.
    """
    for of_records, run in groupby(events, lambda event: isinstance(event, RecordReceived)):
        found = tuple(run)
        if of_records and len(found) > 1:
            yield RecordsReceived(records=cast("tuple[RecordReceived, ...]", found))
        else:
            yield from found
