"""A tick: a look at each group with a deadline that has passed, then the plans that are due. Pure.

Whatever else is due comes before the plans, and of these as many are made as the budget allows. The
groups that get none yet go on with their hand-overs, and wait in the backlog.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.daemon.control.audit.group_decision import Decision
from levelwind.daemon.control.boundary.control_effects import Effect, FenceCommits
from levelwind.daemon.control.gain.demand import learned_speeds, surely_moderate
from levelwind.daemon.control.group_records import newest_figures
from levelwind.daemon.control.membership.liveness import check_liveness
from levelwind.daemon.control.schedule.deciding import current_deadlines, decide_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from levelwind.daemon.control.context import Clock, ControlContext
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.state.control_state import ControlState
    from levelwind.daemon.control.state.plan_backlog import PlanBudget


def tick(
    state: ControlState, budget: PlanBudget | None, clock: Clock
) -> tuple[ControlState, list[Effect]]:
    """Look at each group with a deadline that has passed, and make the plans that are due."""
    if budget != state.budget:
        state = replace(state, budget=budget)
    context = state.context(clock)
    effects: list[Effect] = []
    held: dict[str, Decision] = {}
    for taken in state.groups.take_due(clock.now, context.members_clocks):
        group = taken if taken.name in state.postponed else with_moderate_demand(taken, clock.now)
        deadlines = current_deadlines(state, group, context)
        if not deadlines.passed(context.time_of(group.name)):
            # The deadline was put off, or had little to say.
            partition = context.members_clocks.partition_of(group.name)
            state.groups.put(group, deadlines, partition)
            continue
        before, fences = _look(group, context)
        effects += fences
        state, more = decide_about(state, before, context, may_plan=False, held=held)
        effects += more
    served = _served(state, context)
    last = state.backlog.computed + plans_allowed(state)
    while state.backlog.computed < last and (name := next(served, None)) is not None:
        if name in held:
            before = held.pop(name)
        else:
            before, fences = _look(state.groups[name], context)
            effects += fences
        state, more = decide_about(state, before, context, may_plan=True)
        effects += more
    for before in held.values():
        state, more = decide_about(state, before, context, may_plan=False)
        effects += more
    return state, [*effects, *state.backlog.delay_events(budget, clock.now)]


def with_moderate_demand(group: ManagedGroup, now: float) -> ManagedGroup:
    """Return a group whose demand was looked at, if it is due and a rough look is enough.

    For most groups that is all that ordinary lag asks of a tick; it leaves samples unread.
    """
    watch, sampled_at = group.demand, group.lag_at
    if (
        group.plan is None
        or not group.live
        or not watch.quiet
        or not watch.due(sampled_at, now)
        or (lags := newest_figures(group)) is None
        or not surely_moderate(lags, group.capacity, learned_speeds(group.speeds))
    ):
        return group
    return replace(group, demand=watch.checked_moderate(sampled_at, now))


def plans_allowed(state: ControlState) -> float:
    """Return the most plans of one step."""
    return inf if state.budget is None else state.budget.plans


def _look(group: ManagedGroup, context: ControlContext) -> tuple[Decision, list[Effect]]:
    """Check the members of a group; return it with what was found, and the commits to fence."""
    check = check_liveness(group, context.timers, context.time_of(group.name))
    fences: list[Effect] = [
        FenceCommits(group=group.name, incarnation=incarnation, transactional_id=name)
        for incarnation, name in check.to_fence.items()
    ]
    return Decision(group=check.group, events=check.events), fences


def _served(state: ControlState, context: ControlContext) -> Iterator[str]:
    """Yield the groups that wait for a plan: all in their order, or else by need."""
    waiting = state.groups.ordered(state.backlog.waiting)
    if len(waiting) <= plans_allowed(state):
        return iter([group.name for group in waiting])
    return state.backlog.by_need(context, {group.name: group for group in waiting})
