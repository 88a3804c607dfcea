"""Level the members below the largest load, one rank after another.

Guarantees: the most loaded member that exceeds the limit of its rank gives a partition away, or
exchanges one, with the taker for which the pair's longer time to drain becomes shortest, as in
`relieve`. A member that cannot be lowered is left as it is, and the next one is tried. So no load
rises above the larger of the two it is exchanged between; counts stay within their limits, and the
cross-rack cost within its limit. The search ends when no member above its limit can be lowered: a
plan that it returns is returned unchanged, unless the work budget was exhausted.
Ties: members and partitions by number.
"""

from collections.abc import Callable

import numpy as np

from levelwind.assignors.optimal.model.load_limits import ROUNDING, mean_of_rest
from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.optimal.search.relieve import best_step
from levelwind.assignors.problem.columns import Floats, Ints

LEAST_GAIN_SHARE = 0.25
"""Share of the load tolerance that a step has to be able to gain to be searched for."""


def level(
    model: Model,
    owner: Ints,
    preferred_owner: Ints,
    limit_of: Callable[[Floats], Floats],
    budget: WorkBudget,
    *,
    max_cross_rack_cost: int,
) -> Ints:
    """Return a plan in which the loads below the largest one are level, too.

    Args:
        model: the problem.
        owner: the plan.
        preferred_owner: the member that should keep the partition (P); -1 for none.
        limit_of: gives the limit of each member (M) for the times to drain of all (M).
        budget: how much may be tried.
        max_cross_rack_cost: the cross-rack cost that the plan may have.
    """
    drain_time = model.drain_time(owner)
    if bool((drain_time <= limit_of(drain_time) * ROUNDING).all()):
        return owner
    working = WorkingPlan.of(model, owner, preferred_owner)
    stuck = np.zeros(len(model.member_class), np.bool_)
    changed = False
    while True:
        drain_time = working.drain_time()
        limit = limit_of(drain_time)
        over = np.flatnonzero((drain_time > limit * ROUNDING) & ~stuck)
        if not len(over):
            if not changed:
                return working.owner
            stuck[:], changed = False, False  # who was stuck may have another taker now
            continue
        giver = int(over[np.argmax(drain_time[over])])
        step = None
        if _can_gain(working, giver):
            step = best_step(
                working, giver, drain_time, float(limit[giver]), budget, max_cross_rack_cost
            )
        if step is None:
            if budget.exhausted:
                return working.owner
            stuck[giver] = True
            continue
        changed = True
        step.apply(working, giver)


def level_fully(model: Model, owner: Ints, budget: WorkBudget) -> Ints:
    """Return a plan from scratch levelled as far as its cross-rack cost allows.

    Each member is compared with the mean of those that are not more loaded.
    """
    options = model.options

    def limit_of(drain_time: Floats) -> Floats:
        level_load = mean_of_rest(model, drain_time) * (1 + options.load_tolerance)
        return np.maximum(level_load, options.load_floor)

    nobody = np.full_like(owner, -1)
    cost = model.total_cross_rack_cost(owner)
    return level(model, owner, nobody, limit_of, budget, max_cross_rack_cost=cost)


def _can_gain(working: WorkingPlan, giver: int) -> bool:
    """Whether the member has clearly more than its heaviest partition needs anywhere."""
    model = working.model
    heaviest = float(model.load[working.partitions_of(giver)].max(initial=0.0))
    least = LEAST_GAIN_SHARE * model.options.load_tolerance
    alone = heaviest / float(model.capacity.max())
    return float(working.drain_time()[giver]) > alone * (1 + least)
