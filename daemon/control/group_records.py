"""How each record changes the group that it is about. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from assignors.handover.ledger import Incarnation
from assignors.protocol.records import (
    LagRecord,
    MemberAssignment,
    MemberRecord,
    OperatorRecord,
    SpeedRecord,
    Tombstone,
    TriggerRecord,
)
from daemon.control.membership.announcements import announced, withdrawn
from daemon.control.settings import Cause

if TYPE_CHECKING:
    from assignors.handover.planner_time import PlannerTime
    from assignors.protocol.records import Record
    from daemon.control.context import LogEvent
    from daemon.control.managed_group import ManagedGroup


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


def sampled(group: ManagedGroup, record: LagRecord) -> bool:
    """Take in a sample of lag in place if nothing waits for it; return whether that is so.

    Between two looks at the demand of a group only the first sample matters to its deadlines.
    """
    watched = group.lag_at not in {None, group.demand.sampled_at}
    if (
        not watched
        or group.policy.cooldown.expected is not None
        or record.topic not in group.lags  # other threads may go through the topics
    ):
        return False
    group.lags[record.topic] = record
    return True


def _ended(group: ManagedGroup, tombstone: Tombstone) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in that the pipeline deleted a record of the group."""
    match tombstone.key:
        case ("lag", _, topic):
            lags = {name: lag for name, lag in group.lags.items() if name != topic}
            return replace(group, lags=lags), []
        case ("speed", _):
            return replace(group, speeds=None), []
        case ("racks" | "skew" as kind, _):
            return group.clear_trigger(Cause(kind))
        case _:
            return group, []
