"""How a group takes in its levers, at once and after a restart. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.protocol.records import ALL_GROUPS, NO_SUBJECT, LeverRecord, ProposalRecord
from levelwind.assignors.registry import STRATEGIES
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.schedule.deciding import enter
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from levelwind.assignors.protocol.records import Record, Tombstone
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.control.boundary.control_effects import Effect
    from levelwind.daemon.control.context import Clock
    from levelwind.daemon.control.lever_set import GroupLevers, LeverSet
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.state.control_state import ControlState


def with_levers(group: ManagedGroup, levers: GroupLevers, now: float) -> ManagedGroup:
    """Return a group under other levers; if they ask for a plan, it follows once they settle.

    With the levers of the plan in force again, a change that levers asked for needs no plan.
    """
    former = group.levers
    resumed = former.paused and not levers.paused
    group = replace(group, levers=levers)
    if resumed:
        group = replace(group, policy=replace(group.policy, suppressed={}))
    if group.plan is None:
        return group  # the first plan is made under the levers anyway
    if levers.asks_beyond(group.plan.levers):
        return group.changed(Cause.OPERATOR, now)
    if former.asks_beyond(group.plan.levers):
        return replace(group, policy=group.policy.without_change(Cause.OPERATOR))
    return group  # other settings may have asked for a plan


def lever_changed(
    state: ControlState, record: LeverRecord | Tombstone, clock: Clock
) -> tuple[ControlState, list[Effect]]:
    """Take in a lever that was set or released, and let the groups follow that it acts on."""
    levers = state.levers.after(record)
    if levers == state.levers:
        return state, []
    state = replace(state, levers=levers)
    context = state.context(clock)
    for name in concerned(record.key, state.groups):
        enter(state, with_levers(state.groups[name], levers.of(name), clock.now), context)
    return state, [lever_event(record), *unknown_events([record])]


def concerned(key: tuple[str | int, ...], groups: Mapping[str, ManagedGroup]) -> Iterator[str]:
    """Yield the groups that a lever of this key acts on."""
    name = str(key[1])
    if name == ALL_GROUPS:
        yield from list(groups)
    elif name in groups:
        yield name


def lever_event(record: LeverRecord | Tombstone) -> LogEvent:
    """Return the log event of a lever that was set or released."""
    _, group, kind, subject = record.key
    fields: dict[str, object] = {
        "group": str(group),
        "lever": str(kind),
        "subject": None if subject == NO_SUBJECT else str(subject),
    }
    if not isinstance(record, LeverRecord):
        return LogEvent("lever.released", fields)
    fields |= {"setting": record.setting, "by": record.by, "reason": record.reason}
    return LogEvent("lever.set", fields)


def unknown_events(records: Iterable[LeverRecord | Tombstone]) -> list[LogEvent]:
    """Return a log event for each lever that asks for what this release does not know."""
    return [
        LogEvent("lever.unknown", {"group": record.group, "strategy": record.setting})
        for record in records
        if isinstance(record, LeverRecord)
        and record.kind == "strategy"
        and record.setting not in STRATEGIES
    ]


def overrides_events(levers: LeverSet) -> list[LogEvent]:
    """Return the log events of a start under levers."""
    if not levers.records:
        return []
    shown = [
        " ".join(
            [record.group, record.kind]
            + ([] if record.subject == NO_SUBJECT else [record.subject])
            + ([] if record.setting is None else [record.setting])
        )
        for record in levers.records
    ]
    return [LogEvent("config.overridden", {"levers": shown}), *unknown_events(levers.records)]


def recovered_proposals(
    records: Iterable[tuple[TopicKind, Record | Tombstone]],
) -> dict[str, ProposalRecord]:
    """Return the proposals that the topics hold at the start, by group."""
    proposals: dict[str, ProposalRecord] = {}
    for kind, record in records:
        if kind != "control":
            continue
        if isinstance(record, ProposalRecord):
            proposals[record.group] = record
        elif record.key[0] == ProposalRecord.KIND:
            proposals.pop(str(record.key[1]), None)
    return proposals
