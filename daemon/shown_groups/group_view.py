"""Groups as levelwind's topics describe them: the newest records of each group.

A view is built from records alone: it needs no running daemon, and shows what any other reader of
the topics sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import (
    BrokerRecord,
    CutRecord,
    GroupRecord,
    LagRecord,
    MemberAssignment,
    MemberRecord,
    PlanShard,
    ProxyRecord,
    SpeedRecord,
    Tombstone,
    TopicRecord,
    TriggerRecord,
)
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind.daemon.console import status
from levelwind.daemon.errors import NotFoundError
from levelwind.daemon.kafka.topic_reader import GROUP_KINDS, read_to_end
from levelwind.daemon.observer.cluster_state import leader_only_brokers
from levelwind.daemon.printable import one_line
from levelwind.daemon.shown_groups.measured_group import subscribes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from levelwind.assignors.protocol.records import Key, Record
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.config.settings import Settings

MAX_SUGGESTIONS = 5
"""Largest number of group names in an error message."""


@dataclass(slots=True)
class GroupView:
    """One group, as its records describe it."""

    name: str
    topics: Mapping[str, TopicRecord] = field(default_factory=dict)
    """Layouts of all topics, by name; shared by all groups, updated by `GroupViews`."""
    deleted_topics: Collection[str] = ()
    """Names of the topics that are known to be deleted; shared by all groups."""
    brokers: Mapping[int, BrokerRecord] = field(default_factory=dict)
    """All brokers by id; shared by all groups."""
    plan: GroupRecord | None = None
    plan_shards: dict[int, PlanShard] = field(default_factory=dict)
    """Shares of a plan whose members have no records of their own, by the shards' numbers."""
    proxy: ProxyRecord | None = None
    """How the leader proxy stands to the group, when that last changed."""
    lags: dict[str, LagRecord] = field(default_factory=dict)
    learned: SpeedRecord | None = None
    """The members' learned speeds."""
    triggers: dict[str, TriggerRecord] = field(default_factory=dict)
    unwritten: dict[Key, CutRecord] = field(default_factory=dict)
    """Records that their topic has no room for, by key: what is known instead is older."""
    members: dict[tuple[str, str], MemberRecord] = field(default_factory=dict)
    """Announcements of the members, by instance and incarnation."""
    assigned: dict[tuple[str, str], MemberAssignment] = field(default_factory=dict)
    """Assignments of the members, by instance and incarnation."""

    @property
    def empty(self) -> bool:
        """Whether no record of the group is left."""
        records = (self.plan, self.lags, self.learned, self.triggers, self.members, self.assigned)
        return not any((*records, self.plan_shards, self.unwritten))

    @property
    def unwritten_names(self) -> list[str]:
        """Names of the records that their topic has no room for, as in `lag of orders`."""
        return sorted(" of ".join([str(key[0]), *map(str, key[2:])]) for key in self.unwritten)

    @property
    def watched(self) -> bool:
        """Whether the group subscribes, so that lag records alone name its members."""
        return subscribes(
            self.plan, self.lags, has_managed_members=bool(self.assigned or self.members)
        )

    @property
    def leader_only_brokers(self) -> list[int]:
        """Online brokers with a rack that let consumers fetch from leaders alone.

        With any of them, a cross-rack share is nominal: a member in the rack of a replica may fetch
        from another rack all the same.
        """
        return sorted(leader_only_brokers(self.brokers))


class GroupViews:
    """The views of all groups, updated record by record."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupView] = {}
        self.topics: dict[str, TopicRecord] = {}
        self.brokers: dict[int, BrokerRecord] = {}
        self._deleted_topics: set[str] = set()
        self._reassembly = Reassembly()

    def apply(self, kind: TopicKind, record: Record | Tombstone) -> None:
        """Apply one record; records that concern no group or topic are skipped."""
        match self._reassembly.take(record) if kind == "assignments" else record:
            case BrokerRecord(broker=broker) as description:
                self.brokers[broker] = description
            case TopicRecord(topic=topic) as layout:
                self.topics[topic] = layout
                self._deleted_topics.discard(topic)
            case Tombstone(key=("topic", topic)) if kind == "metadata":
                self.topics.pop(str(topic), None)
                self._deleted_topics.add(str(topic))
            case GroupRecord(group=group) as plan:
                self._view(group).plan = plan
            case ProxyRecord(group=group) as standing:
                self._view(group).proxy = standing
            case LagRecord() | SpeedRecord() | TriggerRecord() | CutRecord() as measured:
                self._measure(measured)
            case MemberRecord() | MemberAssignment() | PlanShard() as part:
                self._add(part)
            case Tombstone(key=ended) if len(ended) > 1 and kind in GROUP_KINDS:
                self._view(str(ended[1])).unwritten.pop(ended, None)
                self._drop(kind, [str(part) for part in ended])
            case _:
                pass

    def _measure(self, record: LagRecord | SpeedRecord | TriggerRecord | CutRecord) -> None:
        view = self._view(record.group)
        view.unwritten.pop(record.key, None)
        match record:
            case LagRecord():
                view.lags[record.topic] = record
            case SpeedRecord():
                view.learned = record
            case TriggerRecord():
                view.triggers[record.kind] = record
            case CutRecord():
                view.unwritten[record.key] = record

    def _add(self, part: MemberRecord | MemberAssignment | PlanShard) -> None:
        view = self._view(part.group)
        if isinstance(part, PlanShard):
            view.plan_shards[part.shard] = part
        elif isinstance(part, MemberRecord):
            view.members[part.instance, part.incarnation] = part
        else:
            view.assigned[part.instance, part.incarnation] = part

    def _drop(self, kind: TopicKind, key: list[str]) -> None:
        view = self._view(key[1])
        match kind, key:
            case "assignments", ["g", _]:
                view.plan = None
            case "assignments", ["proxy", _]:
                view.proxy = None
            case "assignments", ["p", _, shard]:
                view.plan_shards.pop(int(shard), None)
            case "lag", ["speed", _]:
                view.learned = None
            case "lag", [_, _, topic]:
                view.lags.pop(topic, None)
            case "triggers", [trigger, _]:
                view.triggers.pop(trigger, None)
            case "members", [_, _, instance, incarnation]:
                view.members.pop((instance, incarnation), None)
            case "assignments", [_, _, instance, incarnation]:
                view.assigned.pop((instance, incarnation), None)
            case _:
                pass
        if view.empty:
            del self.groups[view.name]

    def _view(self, group: str) -> GroupView:
        if group not in self.groups:
            self.groups[group] = GroupView(
                group,
                topics=self.topics,
                deleted_topics=self._deleted_topics,
                brokers=self.brokers,
            )
        return self.groups[group]


def find_group(views: Mapping[str, GroupView], name: str) -> GroupView:
    """The view of a group.

    Raises:
        NotFoundError: no such group is known; the message suggests similar names.
    """
    if name in views:
        return views[name]
    if not views:
        raise NotFoundError(
            f"no group {name!r} is known here, nor any other: levelwind has published none yet"
        )
    if len(views) <= MAX_SUGGESTIONS:
        raise NotFoundError(
            f"no group {name!r} is known here; there are {len(views)}: {_names(sorted(views))}"
        )
    suggestions = get_close_matches(name, views, n=MAX_SUGGESTIONS)
    hint = (
        f"the nearest of {len(views):,} are {_names(suggestions)}"
        if suggestions
        else f"none of {len(views):,} is similar"
    )
    raise NotFoundError(f"no group {name!r} is known here; {hint}")


def read_views(settings: Settings) -> dict[str, GroupView]:
    """Read levelwind's topics to their present end.

    Raises:
        NotFoundError: the cluster does not have levelwind's topics yet.
        ClusterUnavailableError: the cluster does not answer.
    """
    views = GroupViews()
    with status(f"reading {settings.prefix}* from {settings.bootstrap}"):
        for entry in read_to_end(
            settings.client(), settings.topics, GROUP_KINDS, timeout=settings.topic.timeout
        ):
            views.apply(entry.kind, entry.record)
    return views.groups


def _names(groups: Sequence[str]) -> str:
    return ", ".join(map(one_line, groups))
