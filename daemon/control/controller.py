"""The control: `step(state, event) -> (state, effects)`. Pure; the runtime reads the clock and performs the effects.

It leads once it has read its topics to their end and written its planner epoch. Everything it decides rests on records and
on the time that events bring, so that a decision can be replayed and explained.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from assignors.handover.ledger import Incarnation
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
from daemon.control import liveness
from daemon.control import managed_group as group_state
from daemon.control.context import (
    ControlContext,
    LogEvent,
)
from daemon.control.policy import (
    Outcome,
    decide,
)
from daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignors.handover.timers import Timers
    from assignors.protocol.records import Key, Record
    from assignors.protocol.topics import TopicKind
    from daemon.control.managed_group import ManagedGroup
    from daemon.control.settings import (
        ControlSettings,
        PlanSettings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """All that our topics held when the daemon started, in the order of each partition's log."""

    records: tuple[tuple[TopicKind, Record | Tombstone], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReceived:
    """One record, heard after that."""

    kind: TopicKind
    record: Record | Tombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed, and everything heard before it was handled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus:
    """Our reading of the topics broke off, or goes on."""

    reading: bool


Event = Recovered | RecordReceived | Ticked | ReaderStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """When an event is handled: monotonic seconds to decide by, wall clock milliseconds to write down."""

    now: float
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Records that belong into one transaction."""

    records: tuple[tuple[TopicKind, Record | Tombstone], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Another planner has written a higher epoch: stop at once."""

    planner: PlannerRecord


Effect = Publish | LogEvent | Fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlState:
    """All that the control knows."""

    instance: str
    settings: ControlSettings
    timers: Timers
    planning_of: Callable[[str], PlanSettings]
    planner_epoch: int = 0
    topics: Mapping[str, TopicRecord] = field(default_factory=dict)
    deleted_topics: frozenset[str] = frozenset()
    reader_down: bool = False
    ticked_at: float | None = None
    groups: Mapping[str, ManagedGroup] = field(default_factory=dict)

    def context(self, clock: Clock) -> ControlContext:
        """Return what all groups share at a moment."""
        return ControlContext(
            settings=self.settings,
            timers=self.timers,
            topics=self.topics,
            deleted_topics=self.deleted_topics,
            planner_epoch=self.planner_epoch,
            now=clock.now,
            at=clock.at,
        )


def step(state: ControlState, event: Event, clock: Clock) -> tuple[ControlState, list[Effect]]:
    """Take in one event; the effects are to be performed in their order before the next step."""
    match event:
        case Recovered(records=records):
            return _recovered(state, records, clock)
        case RecordReceived(record=record):
            return _received(state, event.kind, record, clock)
        case Ticked():
            return _ticked(state, clock)
        case ReaderStatus(reading=reading):
            return replace(state, reader_down=not reading), []


# Starting.


def _recovered(
    state: ControlState, records: tuple[tuple[TopicKind, Record | Tombstone], ...], clock: Clock
) -> tuple[ControlState, list[Effect]]:
    """Go on where the last planner stopped: its groups, its targets, and an epoch above its own."""
    latest: dict[tuple[TopicKind, Key], Record | Tombstone] = {}
    for kind, record in records:
        latest.pop((kind, record.key), None)  # so that the order stays that of the last writing
        latest[kind, record.key] = record
    # Of the planner's records each partition has one, and an old one may be read last; the others tell of planners, too.
    planners = [
        record.planner_epoch
        for _, record in records
        if isinstance(record, PlannerRecord | GroupRecord | MemberAssignment)
    ]
    deleted_topics = frozenset(
        str(key[1])
        for (_, key), r in latest.items()
        if isinstance(r, Tombstone) and key[0] == "topic"
    )
    topics = {record.topic: record for record in latest.values() if isinstance(record, TopicRecord)}
    state = replace(
        state,
        topics=topics,
        deleted_topics=deleted_topics,
        ticked_at=clock.now,
        planner_epoch=max(planners, default=0) + 1,
    )
    plans = {record.group: record for record in latest.values() if isinstance(record, GroupRecord)}
    assignments: dict[str, list[MemberAssignment]] = defaultdict(list)
    members: dict[str, list[MemberRecord]] = defaultdict(list)
    departed: dict[str, set[Incarnation]] = defaultdict(set)
    for (kind, key), record in latest.items():
        if isinstance(record, MemberAssignment):
            assignments[record.group].append(record)
        elif isinstance(record, MemberRecord):
            members[record.group].append(record)
        elif isinstance(record, Tombstone) and kind == "members":
            _, group, instance, incarnation = map(str, key)
            departed[group].add(Incarnation(instance, incarnation))
    groups = {
        name: group_state.recovered(
            name,
            state.timers,
            plan=plans.get(name),
            assignments=assignments[name],
            members=members[name],
            departed=departed[name],
            topics=topics,
            now=clock.now,
        )
        for name in sorted({*plans, *assignments, *members})
    }
    state = replace(state, groups=groups)
    planner = PlannerRecord(
        planner_epoch=state.planner_epoch, instance=state.instance, started_at=clock.at
    )
    effects: list[Effect] = [
        Publish(records=(("assignments", planner),)),
        LogEvent("daemon.leading", {"planner_epoch": state.planner_epoch, "groups": len(groups)}),
    ]
    for (kind, _), record in latest.items():
        if isinstance(record, LagRecord | TriggerRecord | OperatorRecord):
            state, more = _received(state, kind, record, clock)
            effects += more
    return state, effects


# Hearing.


def _received(
    state: ControlState, kind: TopicKind, record: Record | Tombstone, clock: Clock
) -> tuple[ControlState, list[Effect]]:
    match record:
        case TopicRecord():
            return _topic_changed(state, record.topic, record, clock), []
        case Tombstone(key=("topic", topic)):
            return _topic_changed(state, str(topic), None, clock), []
        case PlannerRecord(planner_epoch=epoch) if epoch > state.planner_epoch:
            return state, [Fenced(planner=record)]
        case _:
            pass
    name = _group_of(kind, record)
    if name is None or (isinstance(record, Tombstone) and name not in state.groups):
        return state, []
    group = state.groups.get(name) or group_state.empty(name, state.timers)
    updated, events = _apply(group, record, clock.now)
    if (
        updated.ledger is group.ledger
        and updated.changes == group.changes
        and updated.operator is group.operator
    ):
        # Nothing that cannot wait for the next tick: a heartbeat, a sample of lag, a trigger.
        return _after(state, Outcome(state=updated, said=tuple(events)))
    outcome = decide(updated, state.planning_of(name), state.context(clock))
    return _after(state, replace(outcome, said=(*events, *outcome.said)))


def _apply(
    group: ManagedGroup, record: Record | Tombstone, now: float
) -> tuple[ManagedGroup, list[LogEvent]]:
    match record:
        case MemberRecord():
            return group_state.hear_member(group, record, now)
        case MemberAssignment(state="evicted"):
            who = Incarnation(record.instance, record.incarnation)
            return replace(group, ledger=group.ledger.eviction_read_back(who, now)), []
        case LagRecord():
            return replace(group, lags={**group.lags, record.topic: record}), []
        case TriggerRecord():
            return group_state.hear_trigger(group, record)
        case OperatorRecord():
            return replace(group, operator=record), []
        case Tombstone(key=("m", _, instance, incarnation)):
            return group_state.leave(group, Incarnation(str(instance), str(incarnation)), now)
        case Tombstone(key=("lag", _, topic)):
            lags = {name: lag for name, lag in group.lags.items() if name != topic}
            return replace(group, lags=lags), []
        case Tombstone(key=("racks" | "skew" as kind, _)):
            return group_state.trigger_ended(group, Cause(kind))
        case _:
            return group, []


def _topic_changed(
    state: ControlState, name: str, record: TopicRecord | None, clock: Clock
) -> ControlState:
    """Take in a topic's layout; only another id or number of partitions is a cause to plan anew by itself."""
    before = state.topics.get(name)
    topics = {topic: known for topic, known in state.topics.items() if topic != name}
    if record is not None:
        topics[name] = record
    deleted = state.deleted_topics - {name} if record is not None else state.deleted_topics | {name}
    state = replace(state, topics=topics, deleted_topics=deleted)
    if record and before and (record.id, record.partitions) == (before.id, before.partitions):
        return state
    groups = {
        g: group.changed(Cause.TOPICS, clock.now) if group.reads(name) else group
        for g, group in state.groups.items()
    }
    return replace(state, groups=groups)


def _group_of(kind: TopicKind, record: Record | Tombstone) -> str | None:
    """Return the group that a record is news of; our own tombstones are none."""
    if isinstance(record, Tombstone):
        return str(record.key[1]) if kind in {"members", "lag", "triggers"} else None
    return getattr(record, "group", None)


# Time.


def _ticked(state: ControlState, clock: Clock) -> tuple[ControlState, list[Effect]]:
    effects: list[Effect] = []
    since = clock.now - (clock.now if state.ticked_at is None else state.ticked_at)
    # While we did not listen, or did nothing else for long, nobody's silence tells of anybody but us.
    forgiven = since if state.reader_down or since > state.timers.heartbeat else 0.0
    state = replace(state, ticked_at=clock.now)
    for name, group in state.groups.items():
        if not (group.live or group.ledger.holdings):
            continue
        known = liveness.not_heard_for(group, forgiven) if forgiven else group
        heard, said = liveness.check_liveness(known, state.timers, clock.now)
        outcome = decide(heard, state.planning_of(name), state.context(clock))
        state, more = _after(state, replace(outcome, said=(*said, *outcome.said)))
        effects += more
    return state, effects


def _after(state: ControlState, outcome: Outcome) -> tuple[ControlState, list[Effect]]:
    """Return the state after an outcome; what is said follows what is published, so that the log never runs ahead."""
    group = outcome.state
    groups = {**state.groups, group.name: group}
    if group.forgettable:
        del groups[group.name]
    records = tuple(place for record in outcome.records for place in _places(record))
    effects: list[Effect] = [Publish(records=records)] if records else []
    return replace(state, groups=groups), [*effects, *outcome.said]


def _places(record: Record | Tombstone) -> list[tuple[TopicKind, Record | Tombstone]]:
    """Return the topics that a record of a step belongs into."""
    match record:
        case Tombstone(key=("operator", _)):
            return [("control", record)]
        case Tombstone():
            # A member that died cannot take back its announcement; left there it would join again at every start.
            return [("assignments", record), ("members", record)]
        case _:
            return [("assignments", record)]
