"""Events that the control takes in. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from msgspec import Struct

from levelwind.assignors.protocol.records import Record, Tombstone
from levelwind.assignors.protocol.topics import TopicKind
from levelwind.assignors.protocol.unread_lag import UnreadLag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from levelwind.assignors.handover.ledger import Incarnation
    from levelwind.daemon.control.boundary.control_effects import Rollback
    from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
    from levelwind.daemon.control.members.proxied_members import ProxiedMember
    from levelwind.daemon.control.settings import ControlSettings, PlanSettings
    from levelwind.daemon.control.state.plan_backlog import PlanBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """All records of levelwind's topics at the start, in the order of each partition's log."""

    records: tuple[tuple[TopicKind, Record | Tombstone], ...]
    asked_at: float = math.inf
    """Boot seconds just before it was asked how far the topics reach: a planner that was fenced off
    before then has no record that is missing here."""


class RecordReceived(Struct, frozen=True):
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
    frozen: Mapping[FreezeReason, str] = field(default_factory=dict)
    """Why planning is frozen for all groups from now on; empty for not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRead:
    """A canary came back from a partition of `levelwind.members`.

    Everything that the partition held when the canary was sent has been handled.
    """

    partition: int
    asked_at: float
    """Boot seconds, taken before the canary was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyChanged:
    """The leader proxy stands to a group in another way than before."""

    group: str
    standing: str
    reason: str
    """Why it left the group or stays out of it; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedMembersChanged:
    """The leader proxy has given a generation of a group its partitions, or leads it no more."""

    group: str
    members: Mapping[str, ProxiedMember] | None
    """Members of the generation, by name; None: another member leads, or nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChanged:
    """The settings were read again."""

    settings: ControlSettings
    planning_of: Callable[[str], PlanSettings]
    """Returns the planning settings of a group, by its name."""


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
    | ProxyChanged
    | SettingsChanged
    | ProxiedMembersChanged
    | PublishRefused
)

Posted = TypeVar("Posted")


def together(events: Iterable[Posted]) -> Iterator[Posted | RecordsReceived]:
    """Put records that follow each other into one event, and leave everything in its order.

    A decision costs more than a record, and a thousand members acknowledge a plan at once.
    """
    for kind, run in groupby(events, type):
        posted = tuple(run)
        if kind is RecordReceived and len(posted) > 1:
            yield RecordsReceived(records=cast("tuple[RecordReceived, ...]", posted))
        else:
            yield from posted
