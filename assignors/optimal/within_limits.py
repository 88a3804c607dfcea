"""The plan with fewest moves within the limits of load and racks, and the price of its last moves.

Law of `move_cost`: the last few percent of load can cost most of a plan's moves. So a second plan
is made whose loads may be `PRICED_SHARE` above their limits, or `MODERATE_SHARE` as far as they
leave a fifth of the capacity in reserve, again with the fewest moves; only members that read one
unsplit partition alone have to keep to theirs. It is taken instead if the
moves that it saves, at `move_cost` seconds each, are worth more than the seconds by which its
members are above their limits, all together. An ownership within these wider limits is such a plan
without any move.

Guarantees: nothing moves where nothing changed. A plan within the limits is kept by the next one;
one that is above them is taken only if the next plan, made from it, would keep it as well.
"""

from dataclasses import dataclass, replace

import numpy as np

from levelwind.assignors.optimal.model.load_limits import LoadLimits
from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.repair import meets_target, repair, target_limits
from levelwind.assignors.optimal.search.exact import exact_problem
from levelwind.assignors.optimal.search.spread_topics import spread_topics
from levelwind.assignors.optimal.slack_search import SlackChoice
from levelwind.assignors.problem.columns import Ints
from levelwind.assignors.problem.drain import TARGET_UTILISATION

PRICED_SHARE = 0.05
"""Share of its limit by which a load may exceed it where moves are not worth their price."""
MODERATE_SHARE = 0.1
"""The same for loads within `TARGET_UTILISATION`, at which next to nothing waits."""
MAX_PRICED_PARTITIONS = 10_000
"""Partitions up to which the second plan is made: members of larger groups have many each, so that
the last percent cost few moves."""


@dataclass(frozen=True, slots=True)
class PlanWithin:
    """A plan, and the limits that it was made for."""

    owner: Ints
    """P: owner of each partition."""
    limits: LoadLimits
    """Limits of the loads."""
    cheapest: Ints | None
    """The best plan within the limits, if every one was compared; None otherwise."""
    spared_moves: int = 0
    """Moves that were not worth their price."""
    spared_seconds: float = 0.0
    """Seconds of load that these would have saved, of all members together."""


def plan_within_limits(choice: SlackChoice, budget: WorkBudget) -> PlanWithin:
    """Return the plan with fewest moves that are worth their price.

    Args:
        choice: the slack, and the plan from scratch.
        budget: how much may be tried.
    """
    model = choice.repair_model
    level = _fewest_moves(choice, model, budget)
    moves, cost = _voluntary_moves(model, level.owner), model.options.move_cost
    if not cost or not moves or len(level.owner) > MAX_PRICED_PARTITIONS:
        return level
    priced = _fewest_moves(choice, model, budget, priced=True)
    above = _seconds_above(model, priced.owner, level.limits)
    spared = moves - _voluntary_moves(model, priced.owner)
    if cost * spared <= above:
        return level
    if not np.array_equal(priced.owner, model.current_owner):
        # From it, more may be worth their price than before: then it would not last.
        held = replace(choice.model, current_owner=priced.owner).with_slack(choice.model.slack)
        later = replace(choice, model=held)
        next_plan = _fewest_moves(later, later.repair_model, budget).owner
        if cost * _voluntary_moves(later.repair_model, next_plan) <= above:
            return level
    return replace(priced, spared_moves=spared, spared_seconds=above)


def _fewest_moves(
    choice: SlackChoice, model: Model, budget: WorkBudget, *, priced: bool = False
) -> PlanWithin:
    """The plan with fewest moves within the limits of load, or the wider ones of priced moves."""
    limits = target_limits(model, choice.target, choice.largest_load)
    if priced:
        limits = limits._replace(load=priced_limits(limits.load, model.horizon))
    every_plan = exact_problem(model) if choice.exact else None
    cheapest = every_plan.cheapest(limits.load) if every_plan else None
    if meets_target(model, model.keepable_owner, limits):
        return PlanWithin(model.keepable_owner, limits.load, cheapest)
    owner = repair(model, choice.target, limits, budget) if cheapest is None else cheapest
    drain_time = model.drain_time(owner)
    if limits.load.met(drain_time):  # else exchanges could open a way to level further
        owner = spread_topics(model, owner, limits.load.of_members(drain_time))
    return PlanWithin(owner, limits.load, cheapest)


def priced_limits(limits: LoadLimits, horizon: float) -> LoadLimits:
    """The wider limits within which a move has a price.

    Args:
        limits: the limits of the level plan.
        horizon: seconds of arrivals that the loads count.
    """
    moderate = TARGET_UTILISATION * horizon
    return limits.widened(PRICED_SHARE, moderate=moderate, moderate_share=MODERATE_SHARE)


def _voluntary_moves(model: Model, owner: Ints) -> int:
    """Moves of partitions that their owner may keep."""
    return int(np.count_nonzero((model.keepable_owner >= 0) & (model.keepable_owner != owner)))


def _seconds_above(model: Model, owner: Ints, limits: LoadLimits) -> float:
    """Seconds by which members are above their limits, all together."""
    drain_time = model.drain_time(owner)
    return float(np.maximum(drain_time - limits.of_members(drain_time), 0.0).sum())
