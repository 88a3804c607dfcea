"""Facts about the control for other threads than its own: values that no step changes. Pure.

A step changes the control's state in place. So its own thread takes the facts between two steps,
and whoever measures the groups or asks for their freeze goes by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from levelwind.assignors.protocol.records import LagRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.handover.ledger import Ledger
    from levelwind.assignors.protocol.records import (
        BrokerRecord,
        GroupRecord,
        MemberRecord,
        SpeedRecord,
        TopicRecord,
        TriggerRecord,
    )
    from levelwind.assignors.protocol.unread_lag import UnreadLag
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.settings import Cause
    from levelwind.daemon.control.state.control_state import ControlState


class GroupFacts(NamedTuple):
    """Facts about one group."""

    name: str
    live: tuple[MemberRecord, ...]
    """The announcements of the members that are planned for."""
    silent: int
    """Number of members that fell silent together; while there are any, nothing moves."""
    plan: GroupRecord | None
    """The plan in force."""
    ledger: Ledger
    triggers: Mapping[Cause, TriggerRecord]
    """The active triggers, by cause."""
    speeds: SpeedRecord | None
    """The newest record of the members' learned speeds."""
    read: Mapping[str, LagRecord]
    """The newest sample of lag of each topic that was read, by name, also of topics that were
    recreated since."""
    unread: Mapping[str, UnreadLag]
    """Newer samples of some of these topics."""

    @property
    def samples(self) -> dict[str, LagRecord | UnreadLag]:
        """The newest sample of each topic, read or not."""
        return {**self.read, **self.unread}

    def lags(self) -> dict[str, LagRecord]:
        """Return the newest sample of each topic that can be read. Cost: reads the unread ones."""
        newer = {topic: sample.read() for topic, sample in self.unread.items()}
        readable = {topic: lag for topic, lag in newer.items() if isinstance(lag, LagRecord)}
        return {**self.read, **readable}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFacts:
    """Facts about the control at one moment."""

    lag_max_age: float
    """Seconds after which lag is too old to plan by."""
    topics: Mapping[str, TopicRecord]
    """The layouts of the topics that are known, by name."""
    deleted_topics: frozenset[str]
    brokers: Mapping[int, BrokerRecord]
    """The brokers that are known, by id."""
    groups: Mapping[str, GroupFacts]
    """The managed groups, by name."""
    waiting: int
    """Number of groups that wait for a plan."""
    waiting_since: int | None
    """Time since which the first of them waits, in milliseconds since the epoch."""
    planner_epoch: int


def facts_about(state: ControlState) -> ControlFacts:
    """Return the facts about a state; the control's thread calls this. Cost: about 3 us a group."""
    backlog = state.backlog
    return ControlFacts(
        lag_max_age=state.settings.lag_max_age,
        topics=state.topics,
        deleted_topics=state.deleted_topics,
        brokers=state.brokers,
        groups={group.name: _facts_about_group(group) for group in state.groups.values()},
        waiting=len(backlog),
        waiting_since=backlog.since_at,
        planner_epoch=state.planner_epoch,
    )


def _facts_about_group(group: ManagedGroup) -> GroupFacts:
    return GroupFacts(
        name=group.name,
        live=tuple([member.record for member in group.live.values()]),
        silent=len(group.silent_together),
        plan=group.plan,
        ledger=group.ledger,
        triggers=group.triggers,
        speeds=group.speeds,
        read=dict(group.lags),
        unread=dict(group.unread),
    )
