"""Effects of the control: values that the daemon performs in their order. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from levelwind.daemon.control.context import LogEvent

if TYPE_CHECKING:
    from levelwind.assignors.handover.ledger import Incarnation
    from levelwind.assignors.protocol.records import PlannerRecord, Record, Tombstone
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.control.audit.decision_draft import DecisionDraft
    from levelwind.daemon.control.managed_group import ManagedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """State of a group if its records are refused, and the wait until the next attempt."""

    group: ManagedGroup
    """The group without the decision that made the records."""
    events: tuple[LogEvent, ...]
    """Log events of what the group took in before that decision: they stand all the same."""
    pause: float
    """Seconds until the control decides about the group again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Records of one transaction, each with its topic."""

    records: tuple[tuple[TopicKind, Record | Tombstone], ...]
    rollback: Rollback | None = None
    """The group that the records are about; None for the planner's own record.

    If they are refused, the later effects of that group are dropped, and the control is given a
    `PublishRefused`.
    """
    drafts: tuple[DecisionDraft, ...] = ()
    """What the audit trail keeps of the decision, in the same transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Decisions that publish nothing but their entries of the audit trail."""

    group: str
    drafts: tuple[DecisionDraft, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceCommits:
    """Make the brokers refuse the commits of an evicted incarnation.

    Initialising its transactional id does. To be answered with `CommitsFenced`, however long it
    takes.
    """

    group: str
    incarnation: Incarnation
    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Another planner has written a higher epoch: stop at once."""

    planner: PlannerRecord


Effect: TypeAlias = Publish | Audit | LogEvent | FenceCommits | Fenced


def concerns(effect: Effect, group: str) -> bool:
    """Whether an effect is about a group."""
    match effect:
        case Publish(rollback=rollback):
            return rollback is not None and rollback.group.name == group
        case LogEvent(fields=fields):
            return fields.get("group") == group
        case Audit(group=name):
            return name == group
        case FenceCommits() | Fenced():
            return False  # it stands, whether or not the group's records are published
