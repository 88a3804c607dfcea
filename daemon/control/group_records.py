"""How each record changes the group that it is about. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.handover.ledger import Incarnation
from levelwind.assignors.protocol.records import (
    LagRecord,
    MemberAssignment,
    MemberRecord,
    OperatorRecord,
    SpeedRecord,
    Tombstone,
    TriggerRecord,
)
from levelwind.assignors.protocol.unread_lag import UnreadLag
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.membership.announcements import announced, withdrawn
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.protocol.records import Record, Rejection
    from levelwind.assignors.protocol.unread_lag import LagFigures
    from levelwind.daemon.control.managed_group import ManagedGroup


def apply(
    group: ManagedGroup, record: Record | Tombstone, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in one record about a group.

    Of the records that the control itself has written, only evictions matter.
    """
    match record:
        case MemberRecord():
            return announced(group, record, time)
        case MemberAssignment(state="evicted"):
            incarnation = Incarnation(record.instance, record.incarnation)
            ledger = group.ledger.eviction_read_back(incarnation, time.now)
            return replace(group, ledger=ledger), []
        case LagRecord():
            group.unread.pop(record.topic, None)
            return replace(group, lags={**group.lags, record.topic: record}), []
        case SpeedRecord():
            return replace(group, speeds=record), []
        case TriggerRecord():
            return group.raise_trigger(record)
        case OperatorRecord():
            return replace(group, operator=record), []
        case Tombstone(key=("m", _, instance, incarnation)):
            return withdrawn(group, Incarnation(str(instance), str(incarnation)), time)
        case Tombstone():
            return _ended(group, record)
        case _:
            return group, []


def sampled(group: ManagedGroup, record: LagRecord | UnreadLag) -> bool:
    """Take in a sample of lag in place if no decision waits for it; return whether that is so.

    All that such a sample asks for is the next look at the demand, by `sample_looked_at`.
    """
    if group.policy.cooldown.expected is not None or record.topic not in group.lags:
        return False
    if isinstance(record, UnreadLag):
        group.unread[record.topic] = record
    else:
        group.unread.pop(record.topic, None)
        group.lags[record.topic] = record
    return True


def newest_figures(group: ManagedGroup) -> list[LagRecord | LagFigures] | None:
    """Return the figures of the newest samples, and leave the unread ones unread.

    None if a figure of an unread one breaks the protocol.
    """
    if not group.unread:
        return list(group.lags.values())
    newest: list[LagRecord | LagFigures] = []
    for topic, record in group.lags.items():
        unread = group.unread.get(topic)
        figures = record if unread is None else unread.figures()
        if figures is None:
            return None
        newest.append(figures)
    return newest


def read_lag(group: ManagedGroup) -> list[LogEvent]:
    """Read in place the samples of a group that are unread, and log those that cannot be read."""
    events = []
    while group.unread:
        topic, unread = group.unread.popitem()
        record = unread.read()
        if isinstance(record, LagRecord):
            group.lags[topic] = record
        else:
            events.append(unreadable(unread, record))
    return events


def unreadable(unread: UnreadLag, rejection: Rejection) -> LogEvent:
    """Return the log event of a sample that cannot be read: the one before stays."""
    fields = {"group": unread.group, "topic": unread.topic, "reason": rejection.reason}
    return LogEvent("lag.unreadable", fields)


def _ended(group: ManagedGroup, tombstone: Tombstone) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in that the pipeline deleted a record of the group."""
    match tombstone.key:
        case ("lag", _, topic):
            group.unread.pop(str(topic), None)
            lags = {name: lag for name, lag in group.lags.items() if name != topic}
            return replace(group, lags=lags), []
        case ("speed", _):
            return replace(group, speeds=None), []
        case ("racks" | "skew" as kind, _):
            return group.clear_trigger(Cause(kind))
        case _:
            return group, []
