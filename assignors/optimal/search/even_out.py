"""Evening out: the last objective, by what moves anyway.

Guarantees: only partitions without a current owner, or that leave it under the plan, change hands,
so nothing more moves; no member's load rises above the limit or above what it is; the cross-rack
cost does not rise; and counts stay within their limits.
"""

import numpy as np

from assignors.optimal.model.model import Model
from assignors.optimal.model.working_plan import WorkingPlan
from assignors.problem.columns import Ints

MAX_COMPARISONS = 10_000_000
"""Pairs of a partition and a member that are looked at: about a tenth of a second."""


def even_out(model: Model, owner: Ints, max_drain_time: float) -> Ints:
    """Make counts more even by passing on partitions that move under the plan anyway.

    The members with most partitions pass on their lightest ones first, each to the member with the
    fewest that may have it. It is greedy: chains over several members are not tried.

    Args:
        model: the problem.
        owner: a plan.
        max_drain_time: largest acceptable time to drain.

    Returns:
        The plan itself where nothing is to be gained.
    """
    free = (owner >= 0) & (owner != model.current_owner)
    if not bool(free.any()) or np.ptp(model.member_count(owner)) < 2:
        return owner
    plan = WorkingPlan.of(model, owner, model.keepable_owner)
    count, capacity = plan.member_count, model.capacity
    attempts = MAX_COMPARISONS // len(count)
    fewest = int(count.min())
    for giver in np.argsort(-count, kind="stable"):
        if count[giver] - fewest < 2 or attempts <= 0:
            break
        own = plan.partitions_of(int(giver))
        passable = own[free[own]]
        for partition in passable[np.argsort(model.load[passable], kind="stable")]:
            attempts -= 1
            if count[giver] - fewest < 2 or count[giver] <= model.min_count[giver] or attempts < 0:
                break
            takers = np.flatnonzero((count < count[giver] - 1) & (count < model.max_count))
            load = plan.member_load[takers] + model.load[partition]
            takers = takers[load <= max_drain_time * capacity[takers]]
            takers = takers[model.may_own(partition, takers)]
            takers = takers[takers != model.current_owner[partition]]
            cost = model.cross_rack_cost(partition, giver)
            takers = takers[model.cross_rack_cost(partition, takers) <= cost]
            if len(takers):
                plan.move(int(partition), int(takers[np.argmin(count[takers])]))
    return plan.owner
