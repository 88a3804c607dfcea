"""Recovery: the state of all groups from the records that a daemon finds when it starts. Pure.

The plan and the target of each group are those of the last planner, also the share of a member that
is gone for the moment; every liveness timer starts again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from assignors.handover.ledger import Incarnation, Ledger
from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import (
    GroupRecord,
    LagRecord,
    MemberAssignment,
    MemberRecord,
    OperatorRecord,
    PlannerRecord,
    Tombstone,
    TopicRecord,
    TriggerRecord,
)
from daemon.control import plan_record
from daemon.control.managed_group import Basis, ManagedGroup, Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignors.handover.timers import Timers
    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import Key, Record
    from assignors.protocol.topics import TopicKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """State that levelwind's topics describe when the daemon starts."""

    topics: Mapping[str, TopicRecord]
    """The layouts of the topics that are known, by name."""
    deleted_topics: frozenset[str]
    """Topics that were deleted."""
    planner_epoch: int
    """The highest epoch of any earlier planner; 0 if there was none."""
    groups: Mapping[str, ManagedGroup]
    """The groups that have a plan, an assignment or an announcement, by name."""
    pending: Sequence[tuple[TopicKind, LagRecord | TriggerRecord | OperatorRecord]]
    """The newest lag, triggers and requests: to be taken in as if they were read now."""


def recover(
    records: Sequence[tuple[TopicKind, Record | Tombstone]], timers: Timers, now: float, at: int
) -> RecoveredState:
    """Collect the newest record of each key.

    Args:
        records: all records of levelwind's topics, in the order of each partition's log.
        timers: the timers of the hand-over.
        now: monotonic seconds.
        at: the same time on the wall clock, in milliseconds since the epoch.
    """
    latest = _latest(records)
    topics = {record.topic: record for _, record in latest if isinstance(record, TopicRecord)}
    deleted = {
        str(record.key[1])
        for _, record in latest
        if isinstance(record, Tombstone) and record.key[0] == "topic"
    }
    # Each partition has its own planner record, and an outdated one may be read last; plans and
    # assignments carry the epoch too.
    planner_epochs = [
        record.planner_epoch
        for _, record in records
        if isinstance(record, PlannerRecord | GroupRecord | MemberAssignment)
    ]
    return RecoveredState(
        topics=topics,
        deleted_topics=frozenset(deleted),
        planner_epoch=max(planner_epochs, default=0),
        groups={
            name: _with_cooldown(recover_group(name, group_records, timers, topics, now), now, at)
            for name, group_records in sorted(_by_group(latest).items())
        },
        pending=[
            (kind, record)
            for kind, record in latest
            if isinstance(record, LagRecord | TriggerRecord | OperatorRecord)
        ],
    )


def _latest(
    records: Iterable[tuple[TopicKind, Record | Tombstone]],
) -> list[tuple[TopicKind, Record | Tombstone]]:
    """Keep the newest record of each key, in the order in which the newest were written."""
    latest: dict[tuple[TopicKind, Key], Record | Tombstone] = {}
    for kind, record in records:
        latest.pop((kind, record.key), None)
        latest[kind, record.key] = record
    return [(kind, record) for (kind, _), record in latest.items()]


@dataclass(slots=True)
class GroupRecords:
    """The newest records of one group."""

    plan: GroupRecord | None = None
    """The last plan."""
    assignments: list[MemberAssignment] = field(default_factory=list)
    members: list[MemberRecord] = field(default_factory=list)
    """Announcements in the order in which they were written: of two incarnations of an instance the
    later is live."""
    departed: set[Incarnation] = field(default_factory=set)
    """Incarnations whose announcement was deleted by a tombstone: before that they had given up all
    partitions."""


def _by_group(
    latest: Iterable[tuple[TopicKind, Record | Tombstone]],
) -> dict[str, GroupRecords]:
    groups: defaultdict[str, GroupRecords] = defaultdict(GroupRecords)
    departed: defaultdict[str, set[Incarnation]] = defaultdict(set)
    for kind, record in latest:
        match record:
            case GroupRecord():
                groups[record.group].plan = record
            case MemberAssignment():
                groups[record.group].assignments.append(record)
            case MemberRecord():
                groups[record.group].members.append(record)
            case Tombstone(key=(_, group, instance, incarnation)) if kind == "members":
                departed[str(group)].add(Incarnation(str(instance), str(incarnation)))
            case _:
                pass
    for name, group_records in groups.items():
        group_records.departed = departed[name]
    return groups


def recover_group(
    name: str,
    records: GroupRecords,
    timers: Timers,
    topics: Mapping[str, TopicRecord],
    now: float,
) -> ManagedGroup:
    """Return a group as its records describe it.

    Args:
        name: the name of the group.
        records: the newest records of the group.
        timers: the timers of the hand-over.
        topics: the layouts of the topics that are known.
        now: monotonic seconds.
    """
    ledger = Ledger.recover(
        group=name,
        grant=timers.grant,
        group_epoch=records.plan.newest_epoch if records.plan else 0,
        assignments=records.assignments,
        members=records.members,
        now=now,
    )
    target = _recovered_target(records.assignments)
    group = ManagedGroup(name=name, ledger=ledger, plan=records.plan, target=target)
    for record in records.members:
        group, _ = group.announced(record, now)
    for incarnation in ledger.holdings:
        if incarnation in group.live:
            continue
        # An incarnation without an announcement, which it did not delete itself, can be freed only
        # by an eviction.
        departed = incarnation in records.departed
        end = group.ledger.leave if departed else group.ledger.evict
        group = replace(group, ledger=end(incarnation))
    return replace(group.retargeted(), basis=_recovered_basis(group, topics))


def _with_cooldown(group: ManagedGroup, now: float, at: int) -> ManagedGroup:
    """Return a group with the cooldown that its plan's record says."""
    if group.plan is None or group.plan.cooldown is None:
        return group
    cooldown = plan_record.recovered_cooldown(group.plan.cooldown, now, at)
    return replace(group, policy=replace(group.policy, cooldown=cooldown))


def _recovered_target(
    assignments: Iterable[MemberAssignment],
) -> Mapping[str, frozenset[TopicPartition]]:
    """Return the share of each instance, by the newest records of all its incarnations.

    An evicted incarnation keeps in `revoking` what it held. That is the share of its instance, as
    far as the records of the others do not name it: a member that restarts while the daemon does
    finds it again.
    """
    shares: defaultdict[str, frozenset[TopicPartition]] = defaultdict(frozenset)
    taken: set[TopicPartition] = set()
    for record in sorted(assignments, key=lambda record: (record.state == "evicted", record.key)):
        named = (
            ranges.pairs(record.revoking)
            if record.state == "evicted"
            else ranges.pairs(record.assigned) | ranges.pairs(record.pending)
        )
        shares[record.instance] |= named - taken
        taken |= named
    return dict(shares)


def _recovered_basis(group: ManagedGroup, topics: Mapping[str, TopicRecord]) -> Basis | None:
    """Return the present basis if the recovered plan and target fit it.

    The target fits if it covers every planned partition and every member subscribes to what it has:
    the records of a member that left may be gone, and with them its share.
    """
    if group.plan is None:
        return None
    now = group.basis_of(topics)
    planned_members = {
        # The record of an older planner has no subscriptions: they pass for unchanged.
        member.instance: Profile(
            topics=now.members[member.instance].topics
            if member.topics is None and member.instance in now.members
            else frozenset(member.topics or ()),
            rack=member.rack,
            priority=member.priority,
            capacity=member.capacity,
        )
        for member in group.plan.members
    }
    planned_topics = {name: (t.id, t.partitions) for name, t in group.plan.topics.items()}
    planned = {(name, p) for name, t in group.plan.topics.items() for p in range(t.partitions)}
    fits = (
        planned_members == now.members
        and planned_topics == now.topics
        and planned == set(chain.from_iterable(group.target.values()))
        and all(
            topic in member.topics
            for name, member in now.members.items()
            for topic, _ in group.target.get(name, ())
        )
    )
    return now if fits else None
