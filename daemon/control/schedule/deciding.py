"""One decision about one group: its effects, its next state, and its deadlines. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.daemon.control.boundary.control_effects import Audit, Effect, Publish, Rollback
from levelwind.daemon.control.boundary.topics_of_records import written
from levelwind.daemon.control.decision.decide import decide
from levelwind.daemon.control.decision.ordered_plan import ended_proposal, refuse_order
from levelwind.daemon.control.group_records import read_lag
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.control.snapshot import GroupSnapshot
from levelwind.daemon.control.state.deadlines import (
    AT_ONCE,
    NEVER,
    Deadlines,
    deadlines_of,
    planned_at,
)
from levelwind.daemon.control.watched.watched_decision import GONE_SECONDS, decide_watched
from levelwind.daemon.doubling_pause import DoublingPause

if TYPE_CHECKING:
    from levelwind.daemon.control.audit.group_decision import Decision
    from levelwind.daemon.control.context import ControlContext
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.state.control_state import ControlState

REFUSAL_PAUSES = DoublingPause(5.0, 300.0)
"""Waits after a group's records were refused."""


def decide_about(
    state: ControlState,
    before: Decision,
    context: ControlContext,
    *,
    may_plan: bool,
    held: dict[str, Decision] | None = None,
) -> tuple[ControlState, list[Effect]]:
    """Decide about a group after what it took in, unless its next attempt is still to wait.

    Args:
        state: the state of the control.
        before: the group with what it took in.
        context: settings, layouts and time.
        may_plan: whether a plan may be computed; if one is due, the group waits for it otherwise.
        held: takes in `before` by the group's name instead of deciding, if a plan is due that may
            not be computed; None: it is decided without the plan.
    """
    group = before.group
    name = group.name
    if group.unread:
        before = replace(before, events=(*before.events, *read_lag(group)))
    postponement = state.postponed.get(name)
    if postponement is not None and context.now < postponement.until:
        enter(state, group, context)
        return state, list(before.events)
    mode = state.modes.get(name, "managed")
    # Members that announce themselves make a group a managed one, whatever the settings say.
    decision = (
        decide(group, state.planning_of(name), context, may_plan=may_plan)
        if mode == "managed" or not group.idle
        else decide_watched(group, state.planning_of(name), mode, context, may_plan=may_plan)
    )
    if decision.awaits_plan:
        state.backlog.add(name, context)
        if held is not None:
            held[name] = before
            return state, []
    else:
        state.backlog.remove(name)
        state.backlog.computed += decision.computed
    rollback = _rollback(state, before)
    state = _not_postponed(state, name)
    decision = before.then(decision)
    if decision.group.gone:
        decision = decision.then(_refused_request(decision.group, context))
    return effects_of(state, decision, context, rollback)


def _refused_request(group: ManagedGroup, context: ControlContext) -> Decision:
    """Take back a request for a group of which nothing else is known: nobody would follow it."""
    reason = "no such group: it has no members, no lag and no plan"
    return refuse_order(group, Cause.OPERATOR, reason, GroupSnapshot(group, context))


def _rollback(state: ControlState, before: Decision) -> Rollback:
    """Return what is left of a decision if its records are refused, maybe once more."""
    former = state.postponed.get(before.group.name)
    pause = REFUSAL_PAUSES.after(None if former is None else former.pause)
    return Rollback(group=before.group, events=before.events, pause=pause)


def _not_postponed(state: ControlState, name: str) -> ControlState:
    if name not in state.postponed:
        return state
    others = {other: wait for other, wait in state.postponed.items() if other != name}
    return replace(state, postponed=others)


def effects_of(
    state: ControlState,
    decision: Decision,
    context: ControlContext,
    rollback: Rollback | None = None,
) -> tuple[ControlState, list[Effect]]:
    """Return the state after a decision, and its effects.

    The log events follow the records: the log never runs ahead of what is published.
    """
    group = decision.group
    effects: list[Effect] = []
    if group.forgettable:
        if not decision.records:  # else the group was another one before
            rollback = rollback or _rollback(state, decision)
        decision = replace(decision, records=(*decision.records, *ended_proposal(group)))
    if decision.records:
        records, shards = written(decision.records, group.shards)
        group = replace(group, shards=shards)
        effects.append(Publish(records=records, rollback=rollback, drafts=decision.drafts))
    elif decision.drafts:
        effects.append(Audit(group=group.name, drafts=decision.drafts))
    if group.forgettable:
        state.groups.drop(group.name)
        state.backlog.remove(group.name)
        epoch = max(state.forgotten_epoch, group.ledger.epoch)
        state = replace(_not_postponed(state, group.name), forgotten_epoch=epoch)
    else:
        enter(state, group, context)
    return state, [*effects, *decision.events]


# The table of groups.


def enter(state: ControlState, group: ManagedGroup, context: ControlContext) -> None:
    """Enter the next state of a group into the table, with its deadlines."""
    partition = context.members_clocks.partition_of(group.name)
    state.groups.put(group, current_deadlines(state, group, context), partition)


def current_deadlines(
    state: ControlState, group: ManagedGroup, context: ControlContext
) -> Deadlines:
    """Return the deadlines of a group; a group whose plan is due no more ceases to wait for it.

    A watched group is looked at at every tick while anything names it.
    """
    if group.name in state.modes and group.idle:
        since = group.unseen_since if group.unseen else None
        return Deadlines(AT_ONCE if since is None else since + GONE_SECONDS, NEVER, NEVER)
    postponement = state.postponed.get(group.name)
    awaits_plan = group.name in state.backlog
    if awaits_plan and (postponement is not None or planned_at(group, context) > context.now):
        state.backlog.remove(group.name)
        awaits_plan = False
    return deadlines_of(
        group,
        context,
        postponed_until=None if postponement is None else postponement.until,
        awaits_plan=awaits_plan,
    )
