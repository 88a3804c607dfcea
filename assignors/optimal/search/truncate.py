"""A plan cut to so many moves: the most pressing ones now, the others with the next plan.

Law: moves that cannot wait (what nobody holds, what its holder may not keep) are made whatever their number. Of the others the
ones are made that bring counts most towards what they should be, and then those that relieve the most loaded.
"""

import numpy as np

from assignors.optimal.model.model import Model
from assignors.problem.columns import (
    Ints,
    Longs,
)


def cut(terms: Model, owner: Ints, may_wait: np.ndarray, most: int) -> Ints:
    """The plan with at most so many moves.

    Args:
        terms: the problem.
        owner: the whole plan.
        may_wait: by partition, whether its holder may keep it for now.
        most: how many moves there may be in all.
    """
    moved = terms.moved(owner)
    allowed = max(most - int(np.count_nonzero(moved & ~may_wait)), 0)
    waiting = np.flatnonzero(moved & may_wait)
    if len(waiting) <= allowed:
        return owner
    plan = owner.copy()
    plan[waiting] = terms.before[waiting]
    count, work = terms.count(plan), terms.work(plan)
    for _ in range(allowed):
        partition = int(waiting[_next(terms, owner, plan, waiting, count, work)])
        waiting = waiting[waiting != partition]
        before, after = int(plan[partition]), int(owner[partition])
        plan[partition] = after
        count[before] -= 1
        count[after] += 1
        work[before] -= terms.load[partition]
        work[after] += terms.load[partition]
    return plan


def _next(
    terms: Model, owner: Ints, plan: Ints, waiting: Longs, count: Longs, work: np.ndarray
) -> int:
    """The place of the most pressing move among those that wait."""
    before, after = plan[waiting], owner[waiting]
    over = (count[before] > terms.most[before]).astype(np.int64) - (
        count[before] <= terms.least[before]
    )
    under = (count[after] < terms.least[after]).astype(np.int64) - (
        count[after] >= terms.most[after]
    )
    drain = work / terms.capacity
    arrival = (work[after] + terms.load[waiting]) / terms.capacity[after]
    relief = drain[before] - np.maximum(
        arrival, (work[before] - terms.load[waiting]) / terms.capacity[before]
    )
    return int(np.lexsort((waiting, -relief, -(over + under)))[0])
