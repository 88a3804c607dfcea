"""The control: `step(state, event, clock) -> (state, effects)`. Pure.

The daemon reads the clock and performs the effects.

Path of an event: `step` finds the groups that the event concerns, each `ManagedGroup` takes it in,
`decide` decides about each group once, and the decisions become effects: records are published
before they are logged. The control leads once it has read its topics to their end and written its
planner epoch. All its decisions rest on records and on the time that events bring, so that a
decision can be replayed and explained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from levelwind.assignors.handover.ledger import BELIEVED_EPOCH
from levelwind.assignors.protocol.records import (
    BrokerRecord,
    LagRecord,
    LeverRecord,
    MemberRecord,
    PlannerRecord,
    ProposalRecord,
    ProxyRecord,
    Rejection,
    SpeedRecord,
    Tombstone,
    TopicRecord,
)
from levelwind.assignors.protocol.unread_lag import UnreadLag
from levelwind.daemon.control.audit.group_decision import Decision
from levelwind.daemon.control.boundary.control_effects import (
    Effect,
    Fenced,
    Publish,
    Rollback,
)
from levelwind.daemon.control.boundary.control_events import (
    CommitsFenced,
    Event,
    MembersRead,
    ProxiedMembersChanged,
    ProxyChanged,
    PublishRefused,
    RecordReceived,
    RecordsReceived,
    Recovered,
    SettingsChanged,
    Ticked,
)
from levelwind.daemon.control.context import Clock, LogEvent
from levelwind.daemon.control.group_records import apply, sampled, unreadable
from levelwind.daemon.control.lever_set import LeverSet
from levelwind.daemon.control.managed_group import ManagedGroup
from levelwind.daemon.control.members.members_clock import MembersClocks
from levelwind.daemon.control.membership.announcements import as_taken_in, repeated
from levelwind.daemon.control.membership.subscribed_patterns import SubscribedPatterns
from levelwind.daemon.control.recovery import recover
from levelwind.daemon.control.schedule.cluster_changes import cluster_changed
from levelwind.daemon.control.schedule.deciding import decide_about, effects_of, enter
from levelwind.daemon.control.schedule.lever_changes import (
    lever_changed,
    overrides_events,
    recovered_proposals,
    with_levers,
)
from levelwind.daemon.control.schedule.setting_changes import settings_changed
from levelwind.daemon.control.schedule.ticking import plans_allowed, tick
from levelwind.daemon.control.state.control_state import ControlState, Postponement
from levelwind.daemon.control.state.deadlines import NO_DEADLINES, sample_looked_at
from levelwind.daemon.control.state.group_table import GroupTable
from levelwind.daemon.control.state.plan_backlog import PlanBacklog
from levelwind.daemon.control.watched.watched_decision import end_plan

PLANNER_REPEAT_SECONDS = 3600.0
"""Time after which a planner publishes its own record again, whatever else it publishes."""

MOST: Final = (UnreadLag, MemberRecord, LagRecord)
"""Most of all records."""
OWN: Final = (ProxyRecord, ProposalRecord)
"""Records that the control itself writes of a group, and never takes in."""

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.assignors.handover.ledger import Incarnation
    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.protocol.records import Record
    from levelwind.assignors.protocol.topics import TopicKind


def step(state: ControlState, event: Event, clock: Clock) -> tuple[ControlState, list[Effect]]:
    """Take in one event; the effects are to be performed in their order before the next step.

    The given state is used up: its groups and its backlog are changed in place.
    """
    match event:
        case RecordReceived(kind=kind, record=record):
            return _receive(state, ((kind, record),), clock)
        case RecordsReceived(records=received):
            return _receive(state, ((each.kind, each.record) for each in received), clock)
        case Ticked(budget=budget, frozen=frozen):
            freeze, events = state.freeze.changed(frozen, clock.now)
            state, effects = tick(replace(state, freeze=freeze), budget, clock)
            state, repeated_record = _repeat_planner(state, clock)
            return state, [*events, *effects, *repeated_record]
        case MembersRead(partition=partition, asked_at=asked_at):
            clocks = state.clocks.read(partition, asked_at, state.timers.canary).clocks
            return replace(state, members_clocks=clocks), []
        case CommitsFenced(group=name, incarnation=incarnation):
            return _commits_fenced(state, name, incarnation, clock), []
        case ProxyChanged():
            return state, [_proxy_record(state, event, clock)]
        case ProxiedMembersChanged() | SettingsChanged():
            return _surroundings_changed(state, event, clock), []
        case PublishRefused(rollback=rollback, reason=reason):
            return _put_back(state, rollback, reason, clock)
        case Recovered(records=records):
            return _recover(state, records, clock)


def _surroundings_changed(
    state: ControlState, event: ProxiedMembersChanged | SettingsChanged, clock: Clock
) -> ControlState:
    """Take in what no record says: the members that the proxy leads, and other settings."""
    if isinstance(event, SettingsChanged):
        return settings_changed(state, event, clock)
    group = state.groups.get(event.group) or _new_group(state, event.group)
    enter(state, replace(group, proxied=event.members), state.context(clock))
    return state


# Records.


@dataclass(slots=True)
class _Received:
    """What a group took in, and whether it must be decided about now."""

    events: list[LogEvent] = field(default_factory=list)
    due: bool = False


def _receive(
    state: ControlState,
    records: Iterable[tuple[TopicKind, Record | Tombstone | UnreadLag]],
    clock: Clock,
) -> tuple[ControlState, list[Effect]]:
    """Take in records in their order, then decide about each group that they concern."""
    effects: list[Effect] = []
    received: dict[str, _Received] = {}
    clocks, layouts = state.clocks, state.topics
    for kind, record in records:
        if _entered_in_place(state, record, clocks, final=state.topics is layouts):
            continue
        match record:
            case MemberRecord():
                state, raised = _raise_planner_epoch(state, record)
                effects += raised
            case BrokerRecord() | TopicRecord() | Tombstone(key=("topic", _)):
                if state.topics is layouts and not isinstance(record, BrokerRecord):
                    state = replace(state, topics=dict(layouts))
                state = cluster_changed(state, record, clock)
                continue
            case PlannerRecord(planner_epoch=epoch) if epoch > state.planner_epoch:
                return state, [*effects, Fenced(planner=record)]
            case LeverRecord() | Tombstone(key=("lever", _, _, _)):
                state, more = lever_changed(state, record, clock)
                effects += more
                continue
            case _:
                pass
        _take_in(state, kind, record, received, clocks, clock)
    context = state.context(clock)
    # Groups that wait for a plan come first, at the next tick.
    last = -1.0 if state.backlog else state.backlog.computed + plans_allowed(state)
    for name, taken in received.items():
        before = Decision(group=state.groups[name], events=tuple(taken.events))
        if taken.due:
            may_plan = state.backlog.computed < last
            state, more = decide_about(state, before, context, may_plan=may_plan)
        else:
            state, more = effects_of(state, before, context)
        effects += more
    return state, effects


def _raise_planner_epoch(
    state: ControlState, member: MemberRecord
) -> tuple[ControlState, list[Effect]]:
    """Lead with an epoch above that of a planner whose records are lost, if a member knows one.

    The member followed that planner, and follows no lower epoch. If that planner leads still, this
    one is fenced when it publishes.
    """
    if not state.planner_epoch < member.planner_epoch <= BELIEVED_EPOCH:
        return state, []
    state = replace(state, planner_epoch=member.planner_epoch + 1)
    fields = {
        "planner_epoch": state.planner_epoch,
        "group": member.group,
        "instance": member.instance,
    }
    return state, [_planner(state), LogEvent("planner.epoch_raised", fields)]


def _planner(state: ControlState) -> Publish:
    """Return the publication of this planner's own record."""
    record = PlannerRecord(
        planner_epoch=state.planner_epoch,
        instance=state.instance,
        started_at=state.leading_since,
    )
    return Publish(records=(("assignments", record),))


def _repeat_planner(state: ControlState, clock: Clock) -> tuple[ControlState, list[Effect]]:
    """Publish this planner's own record again once that is due.

    The brokers forget a transactional id without transactions after seven days
    (`transactional.id.expiration.ms`), and with it that this daemon may publish.
    """
    if clock.now - state.announced_at < PLANNER_REPEAT_SECONDS:
        return state, []
    return replace(state, announced_at=clock.now), [_planner(state)]


def _proxy_record(state: ControlState, changed: ProxyChanged, clock: Clock) -> Publish:
    """Return the publication of how the leader proxy stands to a group."""
    record = ProxyRecord(
        group=changed.group,
        at=clock.at,
        planner_epoch=state.planner_epoch,
        standing=changed.standing,
        reason=changed.reason,
    )
    return Publish(records=(("assignments", record),))


def _entered_in_place(
    state: ControlState,
    record: Record | Tombstone | UnreadLag,
    clocks: MembersClocks,
    *,
    final: bool,
) -> bool:
    """Enter a sample that no decision waits for, or an announcement that repeats the last one.

    Most records are one or the other. Return whether this one was; `final` says whether this step
    leaves the table of layouts as it was before.
    """
    if not isinstance(record, MOST):
        return False
    row = state.groups.row(record.group)
    if row is None:
        return False
    group = row.group
    if isinstance(record, MemberRecord):
        readable = clocks.readable_in(row.partition)
        return repeated(group, record, readable, state.topics, state.patterns, final=final)
    if not sampled(group, record):
        return False
    state.groups.look_at(row, sample_looked_at(group))
    return True


def _take_in(
    state: ControlState,
    kind: TopicKind,
    record: Record | Tombstone | UnreadLag,
    received: dict[str, _Received],
    clocks: MembersClocks,
    clock: Clock,
) -> None:
    """Let a record change the group that it is about."""
    name = _group_of(kind, record)
    known = None if name is None else state.groups.get(name)
    if name is None or (isinstance(record, Tombstone) and known is None):
        return
    group = _new_group(state, name) if known is None else known
    time = clocks.time_of(name, clock.now)
    if isinstance(record, MemberRecord):
        record = as_taken_in(record, group, state.topics, state.patterns)
        state.groups.subscribed(name, record)
    updated, events = _applied(group, record, time)
    if updated is known and not events:
        return  # what the control itself has written changes nothing
    if isinstance(record, SpeedRecord):
        # No deadline depends on speeds, and no decision waits for them.
        state.groups.put(updated, NO_DEADLINES, clocks.partition_of(name))
        return
    taken = received.setdefault(name, _Received())
    taken.events += events
    # After a heartbeat, a lag sample or a trigger the decision can wait for the next tick.
    taken.due = (
        taken.due
        or updated.ledger is not group.ledger
        or updated.policy.changes != group.policy.changes
        or updated.operator is not group.operator
    )
    state.groups.put(updated, NO_DEADLINES, clocks.partition_of(name))


def _applied(
    group: ManagedGroup, record: Record | Tombstone | UnreadLag, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Take a record in, of which a sample of lag may be unread."""
    if not isinstance(record, UnreadLag):
        return apply(group, record, time)
    read = record.read()
    return (
        (group, [unreadable(record, read)])
        if isinstance(read, Rejection)
        else apply(group, read, time)
    )


def _new_group(state: ControlState, name: str) -> ManagedGroup:
    """Return the state of a group without records, which may be one that was forgotten."""
    group = ManagedGroup.empty(name, state.timers)
    ledger = replace(group.ledger, epoch=state.forgotten_epoch)
    return replace(group, ledger=ledger, levers=state.levers.of(name))


def _group_of(kind: TopicKind, record: Record | Tombstone | UnreadLag) -> str | None:
    """Return the group that a record is about; None for what the control itself wrote of it."""
    if isinstance(record, Tombstone):
        return str(record.key[1]) if kind in {"members", "lag", "triggers"} else None
    return None if isinstance(record, OWN) else getattr(record, "group", None)


# Members.


def _commits_fenced(
    state: ControlState, name: str, incarnation: Incarnation, clock: Clock
) -> ControlState:
    """Note that an evicted incarnation can commit nothing more; the next tick frees what it had."""
    group = state.groups.get(name)
    if group is not None:
        group = replace(group, ledger=group.ledger.commits_fenced(incarnation))
        enter(state, group, state.context(clock))
    return state


def _put_back(
    state: ControlState, rollback: Rollback, reason: str, clock: Clock
) -> tuple[ControlState, list[Effect]]:
    """Drop a decision whose records were refused; the group's next attempt waits."""
    group, pause = rollback.group, rollback.pause
    postponement = Postponement(pause=pause, until=clock.now + pause)
    fields = {"group": group.name, "reason": reason, "retry_in": pause}
    state = replace(state, postponed={**state.postponed, group.name: postponement})
    enter(state, group, state.context(clock))
    return state, [LogEvent("group.publish_refused", fields), *rollback.events]


# The start.


def _recover(
    state: ControlState, records: tuple[tuple[TopicKind, Record | Tombstone], ...], clock: Clock
) -> tuple[ControlState, list[Effect]]:
    """Go on where the last planner stopped: with its groups and targets, and a higher epoch."""
    clocks = MembersClocks.start(state.members_partitions, clock.now)
    patterns = SubscribedPatterns(state.patterns.excluded)
    recovered = recover(records, state.timers, clocks, clock, patterns)
    state = replace(
        state,
        patterns=patterns,
        topics=recovered.topics,
        brokers=recovered.brokers,
        deleted_topics=recovered.deleted_topics,
        members_clocks=clocks.clocks,
        planner_epoch=max(recovered.planner_epoch, state.planner_epoch) + 1,
        leading_since=clock.at,
        announced_at=clock.now,
        groups=GroupTable(),
        backlog=PlanBacklog(),
        levers=LeverSet.of_records(record for kind, record in records if kind == "control"),
    )
    context = state.context(clock)
    proposals = recovered_proposals(records)
    for name, recorded in recovered.groups.items():
        group = with_levers(recorded, state.levers.of(name), clock.now)
        group = replace(group, proposal=proposals.get(name))
        for live in group.live.values():
            state.groups.subscribed(group.name, live.record)
        enter(state, group, context)
    leading = {"planner_epoch": state.planner_epoch, "groups": len(state.groups)}
    effects: list[Effect] = [
        _planner(state),
        LogEvent("daemon.leading", leading),
        *overrides_events(state.levers),
        *recovered.events,
    ]
    for name in recovered.groups:
        group = state.groups[name]
        mode = state.modes.get(name, "managed")
        if group.plan is not None and group.plan.mode not in ("managed", mode):
            reason = f"the settings have the group in mode {mode}"
            state, ended = effects_of(state, end_plan(group, reason), context)
            effects += ended
    unplanned = [name for name in proposals if name not in recovered.groups]
    for name in unplanned:
        enter(state, replace(_new_group(state, name), proposal=proposals[name]), context)
    state, more = _receive(state, recovered.pending, clock)
    effects += more
    for name in unplanned:
        left = state.groups.get(name)
        if left is not None and left.forgettable:
            # Nobody else would end the proposal of a group that no other record names.
            state, ended = effects_of(state, Decision(group=left), context)
            effects += ended
    return state, effects
