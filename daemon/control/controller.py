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
    Say,
    World,
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
    from daemon.control.managed_group import GroupState
    from daemon.control.settings import (
        ControlSettings,
        PlanSettings,
    )

Heard = tuple["TopicKind", "Record | Tombstone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """All that our topics held when the daemon started, in the order of each partition's log."""

    records: tuple[Heard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One record, heard after that."""

    kind: TopicKind
    record: Record | Tombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed, and everything heard before it was handled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Our reading of the topics broke off, or goes on."""

    hears: bool


Event = Recovered | Told | Ticked | Listening


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
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


Effect = Publish | Say | Fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlState:
    """All that the control knows."""

    instance: str
    settings: ControlSettings
    timers: Timers
    planning_of: Callable[[str], PlanSettings]
    planner_epoch: int = 0
    topics: Mapping[str, TopicRecord] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    deaf: bool = False
    ticked_at: float | None = None
    groups: Mapping[str, GroupState] = field(default_factory=dict)

    def world(self, moment: Moment) -> World:
        """Return what all groups share at a moment."""
        return World(
            settings=self.settings,
            timers=self.timers,
            topics=self.topics,
            gone=self.gone,
            planner_epoch=self.planner_epoch,
            now=moment.now,
            at=moment.at,
        )


def step(state: ControlState, event: Event, moment: Moment) -> tuple[ControlState, list[Effect]]:
    """Take in one event; the effects are to be performed in their order before the next step."""
    match event:
        case Recovered(records=records):
            return _recovered(state, records, moment)
        case Told(record=record):
            return _told(state, event.kind, record, moment)
        case Ticked():
            return _ticked(state, moment)
        case Listening(hears=hears):
            return replace(state, deaf=not hears), []


# Starting.


def _recovered(
    state: ControlState, records: tuple[Heard, ...], moment: Moment
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
    gone = frozenset(
        str(key[1])
        for (_, key), r in latest.items()
        if isinstance(r, Tombstone) and key[0] == "topic"
    )
    topics = {record.topic: record for record in latest.values() if isinstance(record, TopicRecord)}
    state = replace(
        state,
        topics=topics,
        gone=gone,
        ticked_at=moment.now,
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
            now=moment.now,
        )
        for name in sorted({*plans, *assignments, *members})
    }
    state = replace(state, groups=groups)
    planner = PlannerRecord(
        planner_epoch=state.planner_epoch, instance=state.instance, started_at=moment.at
    )
    effects: list[Effect] = [
        Publish(records=(("assignments", planner),)),
        Say("daemon.leading", {"planner_epoch": state.planner_epoch, "groups": len(groups)}),
    ]
    for (kind, _), record in latest.items():
        if isinstance(record, LagRecord | TriggerRecord | OperatorRecord):
            state, more = _told(state, kind, record, moment)
            effects += more
    return state, effects


# Hearing.


def _told(
    state: ControlState, kind: TopicKind, record: Record | Tombstone, moment: Moment
) -> tuple[ControlState, list[Effect]]:
    match record:
        case TopicRecord():
            return _topic_changed(state, record.topic, record, moment), []
        case Tombstone(key=("topic", topic)):
            return _topic_changed(state, str(topic), None, moment), []
        case PlannerRecord(planner_epoch=epoch) if epoch > state.planner_epoch:
            return state, [Fenced(planner=record)]
        case _:
            pass
    name = _group_of(kind, record)
    if name is None or (isinstance(record, Tombstone) and name not in state.groups):
        return state, []
    group = state.groups.get(name) or group_state.empty(name, state.timers)
    heard, said = _heard(group, record, moment.now)
    if (
        heard.ledger is group.ledger
        and heard.changes == group.changes
        and heard.operator is group.operator
    ):
        # Nothing that cannot wait for the next tick: a heartbeat, a sample of lag, a trigger.
        return _after(state, Outcome(state=heard, said=tuple(said)))
    outcome = decide(heard, state.planning_of(name), state.world(moment))
    return _after(state, replace(outcome, said=(*said, *outcome.said)))


def _heard(
    group: GroupState, record: Record | Tombstone, now: float
) -> tuple[GroupState, list[Say]]:
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
    state: ControlState, name: str, record: TopicRecord | None, moment: Moment
) -> ControlState:
    """Take in a topic's layout; only another id or number of partitions is a cause to plan anew by itself."""
    before = state.topics.get(name)
    topics = {topic: known for topic, known in state.topics.items() if topic != name}
    if record is not None:
        topics[name] = record
    gone = state.gone - {name} if record is not None else state.gone | {name}
    state = replace(state, topics=topics, gone=gone)
    if record and before and (record.id, record.partitions) == (before.id, before.partitions):
        return state
    groups = {
        g: group.changed(Cause.TOPICS, moment.now) if group.reads(name) else group
        for g, group in state.groups.items()
    }
    return replace(state, groups=groups)


def _group_of(kind: TopicKind, record: Record | Tombstone) -> str | None:
    """Return the group that a record is news of; our own tombstones are none."""
    if isinstance(record, Tombstone):
        return str(record.key[1]) if kind in {"members", "lag", "triggers"} else None
    return getattr(record, "group", None)


# Time.


def _ticked(state: ControlState, moment: Moment) -> tuple[ControlState, list[Effect]]:
    effects: list[Effect] = []
    since = moment.now - (moment.now if state.ticked_at is None else state.ticked_at)
    # While we did not listen, or did nothing else for long, nobody's silence tells of anybody but us.
    forgiven = since if state.deaf or since > state.timers.heartbeat else 0.0
    state = replace(state, ticked_at=moment.now)
    for name, group in state.groups.items():
        if not (group.live or group.ledger.holdings):
            continue
        known = liveness.not_heard_for(group, forgiven) if forgiven else group
        heard, said = liveness.check_liveness(known, state.timers, moment.now)
        outcome = decide(heard, state.planning_of(name), state.world(moment))
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
