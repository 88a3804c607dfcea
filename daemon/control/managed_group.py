"""What the control knows of one group, and how it changes with what is heard. Pure; times are monotonic seconds.

A member is live from its first announcement until it leaves, falls silent, or a newer incarnation of its instance
announces itself. Only what the ledger says may be used decides who owns what; liveness decides who is planned for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from assignors.handover.ledger import Incarnation, Ledger, Traits
from daemon.control.context import LogEvent
from daemon.control.cooldown import CooldownState
from daemon.control.duplicate_instances import InstanceConflict
from daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.handover.timers import Timers
    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import (
        GroupRecord,
        LagRecord,
        MemberAssignment,
        MemberRecord,
        OperatorRecord,
        TopicRecord,
        TriggerRecord,
    )
    from daemon.control.planning import ComputedPlan


class Live(NamedTuple):
    """A member as it was last heard."""

    record: MemberRecord
    heard: float


class Change(NamedTuple):
    """A change that a plan must follow: when it began, and when it last moved."""

    first: float
    last: float


class Suppression(NamedTuple):
    """A standing trigger that no plan followed: why, and when it is considered again."""

    why: str
    until: float


class Profile(NamedTuple):
    """What a plan depends on in a member; a heartbeat that repeats it changes nothing."""

    topics: frozenset[str]
    rack: str | None
    priority: int
    capacity: float

    @classmethod
    def of(cls, record: MemberRecord) -> Profile:
        """Take it from an announcement."""
        return cls(frozenset(record.topics), record.rack, record.priority, record.capacity)


class Basis(NamedTuple):
    """What a plan was made for: the same basis needs no other plan."""

    members: Mapping[str, Profile]  # by instance
    topics: Mapping[str, tuple[str, int]]  # id and number of partitions, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedGroup:
    """One managed group."""

    name: str
    ledger: Ledger
    live: Mapping[Incarnation, Live] = field(default_factory=dict)
    plan: GroupRecord | None = None
    basis: Basis | None = None
    target: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)  # by instance
    lags: Mapping[str, LagRecord] = field(default_factory=dict)
    triggers: Mapping[Cause, TriggerRecord] = field(default_factory=dict)
    operator: OperatorRecord | None = None
    changes: Mapping[Cause, Change] = field(default_factory=dict)
    cooldown: CooldownState = field(default_factory=CooldownState)
    suppressed: Mapping[Cause, Suppression] = field(default_factory=dict)
    conflicts: Mapping[str, InstanceConflict] = field(default_factory=dict)  # by instance
    frozen: bool = False
    waiting_for_topics: bool = False
    """A plan waits for topics that are not known yet, and that was said."""
    unsplittable: frozenset[TopicPartition] = frozenset()
    handover_since: float | None = None
    advanced: Ledger | None = None
    """The ledger as last published: while it is the same one, there is nothing to publish."""

    @property
    def forgettable(self) -> bool:
        """Whether nothing is known of it any more: a group that came and went."""
        return not (
            self.live
            or self.ledger.holdings
            or self.plan
            or self.lags
            or self.triggers
            or self.operator
            or self.changes
        )

    @property
    def members(self) -> dict[str, MemberRecord]:
        """The live members, by instance."""
        return {who.instance: live.record for who, live in self.live.items()}

    @property
    def capacity(self) -> dict[str, float]:
        """The capacity of the live members, by instance."""
        return {who.instance: live.record.capacity for who, live in self.live.items()}

    def profile(self, topics: Mapping[str, TopicRecord]) -> Basis:
        """Return what a plan made now would be made for."""
        members = {instance: Profile.of(record) for instance, record in self.members.items()}
        read = frozenset[str]().union(*(profile.topics for profile in members.values()))
        return Basis(
            members, {t: (topics[t].id, topics[t].partitions) for t in sorted(read) if t in topics}
        )

    def owners(self) -> dict[TopicPartition, str]:
        """Who may be using each partition, by instance."""
        return {place: who.instance for place, who in self.ledger.owners().items()}

    def traits(self) -> dict[Incarnation, Traits]:
        """Return what the readers of an assignment want to know of the live members."""
        return {
            who: Traits(live.record.rack, live.record.capacity) for who, live in self.live.items()
        }

    def reads(self, topic: str) -> bool:
        """Whether any live member subscribes to a topic."""
        return any(topic in live.record.topics for live in self.live.values())

    def changed(self, cause: Cause, now: float) -> ManagedGroup:
        """Note that a plan must follow, once the change has settled."""
        first = self.changes[cause].first if cause in self.changes else now
        return replace(self, changes={**self.changes, cause: Change(first, now)})

    def aimed(self) -> ManagedGroup:
        """Give each live incarnation the share of its instance, nothing to one that is not planned yet."""
        shares = {who: self.target.get(who.instance, frozenset()) for who in self.live}
        return replace(self, ledger=self.ledger.set_target(shares))


def empty(name: str, timers: Timers) -> ManagedGroup:
    """Return a group that nothing is known of yet."""
    return ManagedGroup(name=name, ledger=Ledger.empty(group=name, grant=timers.grant))


def recovered(
    name: str,
    timers: Timers,
    *,
    plan: GroupRecord | None,
    assignments: list[MemberAssignment],
    members: list[MemberRecord],
    departed: set[Incarnation],
    topics: Mapping[str, TopicRecord],
    now: float,
) -> ManagedGroup:
    """Return a group as the topics tell it to a daemon that starts: the same plan, every liveness timer anew.

    Args:
        name: the group's.
        timers: of the hand-over.
        plan: its last plan.
        assignments: what was published of its members.
        members: their announcements, in the order in which they were written: of two incarnations of an instance the
            later is live.
        departed: whose announcement ended with a tombstone: they gave everything up before they wrote it.
        topics: what is known of all topics.
        now: monotonic seconds.
    """
    ledger = Ledger.recover(
        group=name,
        grant=timers.grant,
        group_epoch=plan.group_epoch if plan else 0,
        assignments=assignments,
        members=members,
        now=now,
    )
    target = {who.instance: share for who, share in ledger.target.items()}
    state = ManagedGroup(name=name, ledger=ledger, plan=plan, target=target)
    for record in members:
        state, _ = hear_member(state, record, now)
    for who in [who for who in ledger.holdings if who not in state.live]:
        # Who has no announcement any more, and did not end it itself, can be freed by an eviction alone.
        gone = state.ledger.leave(who) if who in departed else state.ledger.evict(who)
        state = replace(state, ledger=gone)
    return replace(state.aimed(), basis=_planned_basis(state, topics))


def _planned_basis(state: ManagedGroup, topics: Mapping[str, TopicRecord]) -> Basis | None:
    """Return today's basis if the plan of old fits it; a changed subscription alone does not show there."""
    now = state.profile(topics)
    plan = state.plan
    if plan is None:
        return None
    members = {m.instance: (m.rack, m.capacity) for m in plan.members}
    planned_topics = {name: (t.id, t.partitions) for name, t in plan.topics.items()}
    fits = (
        members == {i: (p.rack, p.capacity) for i, p in now.members.items()}
        and planned_topics == now.topics
    )
    return now if fits else None


def hear_member(
    state: ManagedGroup, record: MemberRecord, now: float
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in an announcement: a join, a heartbeat, an acknowledgement, or a departure."""
    who = Incarnation(record.instance, record.incarnation)
    if record.state == "left":
        state = replace(state, ledger=state.ledger.acknowledge(record))
        return (
            evict(state, who, "left with partitions", now)
            if record.owned
            else leave(state, who, now)
        )
    if who in state.live:
        return _heartbeat(state, who, record, now)
    holding = state.ledger.holdings.get(who)
    if holding is not None and (holding.evicted or holding.left):
        # A ghost's last words may still free what it holds, but it is not live again.
        return replace(state, ledger=state.ledger.acknowledge(record)), []
    if holding is None and record.owned:
        fields = {**_name(state, who), "reason": "owns partitions that no record of ours gives it"}
        return replace(state, ledger=state.ledger.claim(record, now)), [
            LogEvent("member.evicted", fields)
        ]
    return _join(replace(state, ledger=state.ledger.acknowledge(record)), who, record, now)


def _join(
    state: ManagedGroup, who: Incarnation, record: MemberRecord, now: float
) -> tuple[ManagedGroup, list[LogEvent]]:
    older = [other for other in state.live if other.instance == who.instance]
    conflict = state.conflicts.get(who.instance, InstanceConflict()).joined(
        who.incarnation, replaces=bool(older), now=now
    )
    if older or conflict.open:
        state = replace(state, conflicts={**state.conflicts, who.instance: conflict})
    if conflict.open and not older:
        return state, []  # said when it began
    said: list[LogEvent] = []
    for other in older:
        why = (
            "its instance is contested"
            if conflict.open
            else "a newer incarnation of its instance has joined"
        )
        state, words = evict(state, other, why, now)
        said += words
    if conflict.open:
        return state, [
            *said,
            LogEvent("member.duplicate_instance", {"group": state.name, "instance": who.instance}),
        ]
    fields = {**_name(state, who), "rack": record.rack, "topics": list(record.topics)}
    state = replace(state, live={**state.live, who: Live(record, now)})
    return state.changed(Cause.MEMBERSHIP, now).aimed(), [LogEvent("member.joined", fields), *said]


def _heartbeat(
    state: ManagedGroup, who: Incarnation, record: MemberRecord, now: float
) -> tuple[ManagedGroup, list[LogEvent]]:
    before = state.live[who].record
    state = replace(
        state, live={**state.live, who: Live(record, now)}, ledger=state.ledger.acknowledge(record)
    )
    if Profile.of(before) != Profile.of(record):
        state = state.changed(Cause.MEMBERSHIP, now)
    if record.nack is None or record.nack == before.nack:
        return state, []
    refused = {**_name(state, who), "code": record.nack.code, "epoch": record.nack.epoch}
    return state, [LogEvent("member.refused", refused)]


def leave(state: ManagedGroup, who: Incarnation, now: float) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take note that an incarnation has left, or that its record is gone: what it had is free."""
    was_live = who in state.live
    state = replace(
        state,
        live={other: live for other, live in state.live.items() if other != who},
        ledger=state.ledger.leave(who),
    )
    if not was_live:
        return state, []
    return state.changed(Cause.MEMBERSHIP, now).aimed(), [
        LogEvent("member.left", _name(state, who))
    ]


def evict(
    state: ManagedGroup, who: Incarnation, why: str, now: float
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take everything from an incarnation; its partitions are free after the wait that the ledger keeps."""
    live = {other: heard for other, heard in state.live.items() if other != who}
    state = replace(state, live=live, ledger=state.ledger.evict(who))
    return state.changed(Cause.MEMBERSHIP, now).aimed(), [
        LogEvent("member.evicted", {**_name(state, who), "reason": why})
    ]


def hear_trigger(state: ManagedGroup, record: TriggerRecord) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take in a cause that stands; one that was known already is no news."""
    cause = Cause(record.kind)
    known = state.triggers.get(cause)
    state = replace(state, triggers={**state.triggers, cause: record})
    if known is not None and known.since == record.since:
        return state, []
    fields = {"group": state.name, "kind": record.kind, "at": record.at, "since": record.since}
    said = LogEvent("trigger.raised", {**fields, "evidence": record.evidence.value()})
    return replace(
        state, suppressed={c: t for c, t in state.suppressed.items() if c is not cause}
    ), [said]


def trigger_ended(state: ManagedGroup, cause: Cause) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take note that a cause no longer stands."""
    if cause not in state.triggers:
        return state, []
    triggers = {other: record for other, record in state.triggers.items() if other is not cause}
    return replace(state, triggers=triggers), [
        LogEvent("trigger.cleared", {"group": state.name, "kind": cause.value})
    ]


def planned(
    state: ManagedGroup, plan: ComputedPlan, record: GroupRecord, basis: Basis, now: float
) -> ManagedGroup:
    """Return the group after a plan was decided: its target is aimed at, all changes are followed."""
    since = state.handover_since if state.handover_since is not None else now
    return replace(
        state,
        plan=record,
        basis=basis,
        target=plan.target,
        changes={},
        operator=None,
        suppressed={},
        waiting_for_topics=False,
        handover_since=since,
    ).aimed()


def _name(state: ManagedGroup, who: Incarnation) -> dict[str, object]:
    return {"group": state.name, "instance": who.instance, "incarnation": who.incarnation}
