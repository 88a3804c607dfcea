"""Truncate a plan to a number of moves: the most urgent moves now, the others with the next plan.

Guarantees: moves that cannot wait (the partition has no owner, or its owner may not keep it) are
made whatever their number. Of the others, those that bring counts closest to their limits are made
first, then those that relieve the most loaded members.
"""

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.problem.columns import Ints, Longs


def truncate(model: Model, owner: Ints, deferrable: np.ndarray, max_moves: int) -> Ints:
    """Return the plan with at most `max_moves` moves, as far as moves can wait.

    Args:
        model: the problem.
        owner: the full plan.
        deferrable: whether the current owner may keep the partition for now (P).
        max_moves: moves that the plan may make in all.
    """
    moved = model.moved(owner)
    remaining_moves = max(max_moves - int(np.count_nonzero(moved & ~deferrable)), 0)
    deferred = np.flatnonzero(moved & deferrable)
    if len(deferred) <= remaining_moves:
        return owner
    plan = owner.copy()
    plan[deferred] = model.current_owner[deferred]
    count, load = model.member_count(plan), model.member_load(plan)
    for _ in range(remaining_moves):
        partition = int(deferred[_most_urgent(model, owner, plan, deferred, count, load)])
        deferred = deferred[deferred != partition]
        before, after = int(plan[partition]), int(owner[partition])
        plan[partition] = after
        count[before] -= 1
        count[after] += 1
        load[before] -= model.load[partition]
        load[after] += model.load[partition]
    return plan


def _most_urgent(
    model: Model, owner: Ints, plan: Ints, deferred: Longs, count: Longs, load: np.ndarray
) -> int:
    """Index of the most urgent move among the deferred ones."""
    before, after = plan[deferred], owner[deferred]
    over = (count[before] > model.max_count[before]).astype(np.int64) - (
        count[before] <= model.min_count[before]
    )
    under = (count[after] < model.min_count[after]).astype(np.int64) - (
        count[after] >= model.max_count[after]
    )
    drain_time = load / model.capacity
    taker_drain_time = (load[after] + model.load[deferred]) / model.capacity[after]
    relief = drain_time[before] - np.maximum(
        taker_drain_time, (load[before] - model.load[deferred]) / model.capacity[before]
    )
    return int(np.lexsort((deferred, -relief, -(over + under)))[0])
