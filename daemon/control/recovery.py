"""Recovery: the state of all groups from the records that a daemon finds when it starts. Pure.

The planner's own records give each group its plan, its target and its ledger, also the share of a
member that is gone for the moment. The records of members follow, by the function that takes them
in live: `membership.resumption` has the law.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.handover.ledger import BELIEVED_EPOCH, Incarnation
from levelwind.assignors.handover.ledger_recovery import recover_ledger
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import (
    BrokerRecord,
    GroupRecord,
    GroupShard,
    LagRecord,
    MemberAssignment,
    MemberRecord,
    MemberShard,
    OperatorRecord,
    PlannerRecord,
    PlanShard,
    SpeedRecord,
    Tombstone,
    TopicRecord,
    TriggerRecord,
)
from levelwind.assignors.protocol.records.cut import head_key
from levelwind.assignors.protocol.records.reassembly import Reassembly
from levelwind.assignors.protocol.records.shards import planned_assignments
from levelwind.daemon.control import plan_record
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.group_records import apply
from levelwind.daemon.control.managed_group import ManagedGroup
from levelwind.daemon.control.members.live_member import Basis
from levelwind.daemon.control.membership.announcements import as_taken_in, records_lost
from levelwind.daemon.control.membership.resumption import believed, reported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.handover.timers import Timers
    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import Key, Record
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.control.context import Clock
    from levelwind.daemon.control.members.members_clock import MembersClocks
    from levelwind.daemon.control.membership.subscribed_patterns import SubscribedPatterns


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """State that levelwind's topics describe when the daemon starts."""

    topics: dict[str, TopicRecord]
    """The layouts of the topics that are known, by name."""
    brokers: Mapping[int, BrokerRecord]
    """The brokers that are known, by id."""
    deleted_topics: frozenset[str]
    """Topics that were deleted."""
    planner_epoch: int
    """The highest epoch of any earlier planner; 0 if there was none."""
    groups: Mapping[str, ManagedGroup]
    """The groups that have a plan, an assignment or an announcement, by name."""
    events: Sequence[LogEvent]
    """Log events about the incarnations that the start evicts, and about records that lack a
    shard."""
    pending: Sequence[tuple[TopicKind, LagRecord | SpeedRecord | TriggerRecord | OperatorRecord]]
    """The newest lag, speeds, triggers and requests: to be taken in as if they were read now."""


def recover(
    records: Sequence[tuple[TopicKind, Record | Tombstone]],
    timers: Timers,
    clocks: MembersClocks,
    clock: Clock,
    patterns: SubscribedPatterns,
) -> RecoveredState:
    """Collect the newest record of each key.

    Args:
        records: all records of levelwind's topics, in the order of each partition's log.
        timers: the timers of the hand-over.
        clocks: the clocks of the partitions of `levelwind.members`.
        clock: the time of the start.
        patterns: what patterns match; it is new.
    """
    latest, incomplete = _reassembled(_latest(records))
    topics = {record.topic: record for _, record in latest if isinstance(record, TopicRecord)}
    deleted = {
        str(record.key[1])
        for _, record in latest
        if isinstance(record, Tombstone) and record.key[0] == "topic"
    }
    # Each partition has its own planner record, and an outdated one may be read last; plans and
    # assignments carry the epoch too. Members announce the one that they follow: levelwind's topics
    # may have been made anew while the members live on, and they follow no lower epoch.
    planner_epochs = [
        record.planner_epoch
        for _, record in records
        if isinstance(record, PlannerRecord | GroupRecord | MemberAssignment)
        or (isinstance(record, MemberRecord) and record.planner_epoch <= BELIEVED_EPOCH)
    ]
    groups, events = {}, []
    for name, group_records in sorted(_by_group(latest).items()):
        time = clocks.time_of(name, clock.now)
        group, more = recover_group(name, group_records, timers, topics, patterns, time)
        groups[name] = _with_cooldown(group, clock)
        events += more
    return RecoveredState(
        topics=topics,
        brokers={record.broker: record for _, record in latest if isinstance(record, BrokerRecord)},
        deleted_topics=frozenset(deleted),
        planner_epoch=max(planner_epochs, default=0),
        groups=groups,
        events=[*events, *(_lost(key) for key in incomplete)],
        pending=[
            (kind, record)
            for kind, record in latest
            if isinstance(record, LagRecord | SpeedRecord | TriggerRecord | OperatorRecord)
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


def _reassembled(
    latest: Iterable[tuple[TopicKind, Record | Tombstone]],
) -> tuple[list[tuple[TopicKind, Record | Tombstone]], list[Key]]:
    """Return the records with those made whole that were cut, and the keys that lack a shard."""
    reassembly = Reassembly()
    reassembled: list[tuple[TopicKind, Record | Tombstone]] = []
    for kind, record in latest:
        whole = reassembly.take(record) if kind == "assignments" else record
        # The shards stay: what replaces them must end those that it does not need. An incomplete
        # plan stays for its epoch. An incomplete assignment would look like a release.
        if whole is not None or isinstance(record, GroupShard | MemberShard | GroupRecord):
            reassembled.append((kind, record if whole is None else whole))
    return reassembled, sorted(reassembly.incomplete)


def _lost(key: Key) -> LogEvent:
    """The log event of a record that lacks a shard, by the record's key."""
    return LogEvent("record.incomplete", {"key": list(key)})


@dataclass(slots=True)
class GroupRecords:
    """The newest records of one group."""

    plan: GroupRecord | None = None
    """The last plan."""
    assignments: list[MemberAssignment] = field(default_factory=list)
    ended: list[Incarnation] = field(default_factory=list)
    """Incarnations whose assignment was taken back, as far as its tombstone is known."""
    members: list[MemberRecord | Tombstone] = field(default_factory=list)
    """Announcements and their tombstones, in the order in which they were written."""
    shards: dict[Key, int] = field(default_factory=dict)
    """Number of shards that the topics hold of a record, by its key."""
    plan_shards: dict[int, PlanShard] = field(default_factory=dict)
    """Shards of the assignment of a watched group's plan, by number."""

    @property
    def announced(self) -> list[MemberRecord]:
        """The announcements."""
        return [record for record in self.members if isinstance(record, MemberRecord)]

    @property
    def only_tombstones(self) -> bool:
        """Whether nothing but tombstones is left of the group."""
        return not (self.plan or self.assignments or self.shards or self.announced)


def _by_group(
    latest: Iterable[tuple[TopicKind, Record | Tombstone]],
) -> dict[str, GroupRecords]:
    groups: defaultdict[str, GroupRecords] = defaultdict(GroupRecords)
    for kind, record in latest:
        match record:
            case GroupRecord():
                groups[record.group].plan = record
            case MemberAssignment():
                groups[record.group].assignments.append(record)
            case MemberRecord():
                groups[record.group].members.append(record)
            case GroupShard() | MemberShard() | PlanShard():
                shards, head = groups[record.group].shards, head_key(record.key)
                shards[head] = max(shards.get(head, 0), record.shard + 1)
                if isinstance(record, PlanShard):
                    groups[record.group].plan_shards[record.shard] = record
            case Tombstone(key=("m", group, _, _)) if kind == "members":
                groups[str(group)].members.append(record)
            case Tombstone(key=("m", group, instance, incarnation)) if kind == "assignments":
                groups[str(group)].ended.append(Incarnation(str(instance), str(incarnation)))
            case _:
                pass
    return {name: records for name, records in groups.items() if not records.only_tombstones}


def recover_group(
    name: str,
    records: GroupRecords,
    timers: Timers,
    topics: Mapping[str, TopicRecord],
    patterns: SubscribedPatterns,
    time: PlannerTime,
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Return a group as its records describe it, and log events about what its members announce.

    Args:
        name: the name of the group.
        records: the newest records of the group.
        timers: the timers of the hand-over.
        topics: the layouts of the topics that are known.
        patterns: what patterns match among them.
        time: the time of the start.
    """
    ledger = recover_ledger(
        group=name,
        timers=timers,
        group_epoch=records.plan.newest_epoch if records.plan else 0,
        assignments=records.assignments,
        members=records.announced,
        ended=records.ended,
        time=time,
    )
    target = _watched_target(records) or _recovered_target(records.assignments, records.plan)
    group = ManagedGroup(
        name=name, ledger=ledger, plan=records.plan, target=target, shards=records.shards
    )
    events: list[LogEvent] = []
    for record in believed(records.members, ledger.holdings):
        if isinstance(record, Tombstone):
            group, more = apply(group, record, time)
        else:
            group, waiting = _still_waiting(group, record, time)
            group, more = apply(group, as_taken_in(record, group, topics, patterns), time)
            more = [*waiting, *more]
        events += more
    for record in reported(records.members, {*group.live, *group.refused}):
        group, more = apply(group, as_taken_in(record, group, topics, patterns), time)
        events += more
    for incarnation, holding in group.ledger.holdings.items():
        known = incarnation in group.live or incarnation in group.refused
        if not known and not holding.evicted and not holding.left:
            # Without an announcement, which it did not delete itself, only an eviction frees what
            # it had.
            group, more = group.evict(incarnation, "its announcement is lost", time)
            events += more
    group = replace(group.retargeted(), basis=_recovered_basis(group, topics))
    return group, [event for event in events if event.event != "member.joined"]


def _still_waiting(
    group: ManagedGroup, record: MemberRecord, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Wait again for the members of a planner whose records are lost, if a start cut that short.

    A group without a plan has granted nothing: the partitions of a life are such as it claims.
    """
    holding = group.ledger.holdings.get(Incarnation(record.instance, record.incarnation))
    claims = holding is not None and (holding.granted or holding.revoking)
    return records_lost(group, record, time) if claims else (group, [])


def _with_cooldown(group: ManagedGroup, clock: Clock) -> ManagedGroup:
    """Return a group with the cooldown that its plan's record says."""
    if group.plan is None or group.plan.cooldown is None:
        return group
    planned = group.plan.cooldown
    cooldown = plan_record.recovered_cooldown(planned, clock.now, clock.at)
    handover = group.policy.handover if planned.handover_ms is None else planned.handover_ms / 1000
    return replace(group, policy=replace(group.policy, cooldown=cooldown, handover=handover))


def _watched_target(records: GroupRecords) -> Mapping[str, frozenset[TopicPartition]]:
    """Return the share of each member of a watched group, by its plan; empty for other groups."""
    planned = planned_assignments(records.plan, records.plan_shards) if records.plan else None
    return {member: ranges.pairs(share) for member, share in (planned or {}).items()}


def _recovered_target(
    assignments: Iterable[MemberAssignment], plan: GroupRecord | None
) -> Mapping[str, frozenset[TopicPartition]]:
    """Return the share of each instance, by the newest records of all its incarnations.

    An active record names the whole share. Where its instance has none, an evicted incarnation
    keeps in `revoking` what it held. That is the share of its instance, as far as it is planned and
    the records of the others do not name it: a member that restarts while the daemon does finds it
    again.
    """
    planned = (
        {(name, p) for name, t in plan.topics.items() for p in range(t.partitions)}
        if plan
        else set()
    )
    shares: defaultdict[str, frozenset[TopicPartition]] = defaultdict(frozenset)
    taken: set[TopicPartition] = set()
    records = sorted(assignments, key=lambda record: (record.state == "evicted", record.key))
    active = {record.instance for record in records if record.state == "active"}
    for record in records:
        if record.state == "evicted" and record.instance in active:
            # The plan gave away what its next life does not have: that was not released yet.
            continue
        named = (
            ranges.pairs(record.revoking) & planned
            if record.state == "evicted"
            else ranges.pairs(record.assigned) | ranges.pairs(record.pending)
        )
        shares[record.instance] |= named - taken
        taken |= named
    return dict(shares)


def _recovered_basis(group: ManagedGroup, topics: Mapping[str, TopicRecord]) -> Basis | None:
    """Return the basis of the recovered plan if the target and all members that are there fit it.

    A plan that only gave orphans a reader has none: its cause is still due.

    The target fits if it covers every planned partition and every member subscribes to what it has:
    the records of a member that left may be gone, and with them its share. A planned member that is
    not there may come back.
    """
    if group.plan is None or group.plan.orphans_only:
        return None
    now = group.basis_of(topics)
    # Subscriptions that the record does not have pass for unchanged.
    before = Basis.planned(group.plan, now.members)
    planned = {(name, p) for name, t in group.plan.topics.items() for p in range(t.partitions)}
    fits = (
        {**before.members, **now.members} == before.members
        and before.topics == now.topics
        and planned == set(chain.from_iterable(group.target.values()))
        and all(
            topic in member.topics
            for name, member in now.members.items()
            for topic, _ in group.target.get(name, ())
        )
    )
    return before if fits else None
