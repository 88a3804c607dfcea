"""Relieve the most loaded members by moves and exchanges that keep counts and the cross-rack limit.

Guarantees: the most loaded member gives a partition away, or exchanges one, with the taker for
which the pair's longer time to drain becomes shortest. Of the steps that reach the limit, the one
with fewest moves and then least cross-rack cost is taken. The search ends when no member exceeds
the limit, the most loaded member cannot be lowered, or the work budget is exhausted; it also ends
when the plan is good enough and a step brings too little.
Ties: members and partitions by number.
"""

from typing import NamedTuple

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.optimal.search.exchange_chains import relieve_by_chain
from levelwind.assignors.problem.columns import Floats, Ints, Longs

MAX_SAMPLE = 64
"""Partitions of a member that are tried against those of another member."""
FIRST_TAKERS = 4
"""Least loaded members that are tried first; the best step to one of them is taken."""
MAX_PAIRS = 60_000
"""Pairs of partitions that are tried with further members if no step to the first ones exists."""
MAX_REMAINING_STEPS = 12
"""Steps as long as the current one that may lie between a good enough plan and the limit."""


class ReliefStep(NamedTuple):
    """A partition that goes to a taker, and perhaps one back; smaller steps are better."""

    peak: float
    """Longer time to drain of giver and taker after the step, but at least the limit."""
    moves_change: int
    """Change of the number of moves."""
    cross_rack_change: int
    """Change of the cross-rack cost."""
    taker: int
    """The member that gets the partition."""
    partition: int
    """The partition that leaves the giver."""
    returned: int
    """The partition that comes back; -1 if none does."""

    def apply(self, working: WorkingPlan, giver: int) -> None:
        """Take the step."""
        working.move(self.partition, self.taker)
        if self.returned >= 0:
            working.move(self.returned, giver)


def relieve(
    model: Model,
    owner: Ints,
    preferred_owner: Ints,
    limit: float,
    budget: WorkBudget,
    *,
    max_cross_rack_cost: int | None,
    enough: float = 0.0,
) -> Ints:
    """Return a plan with the most loaded members relieved.

    Args:
        model: the problem.
        owner: the plan.
        preferred_owner: the member that should keep the partition (P); -1 for none.
        limit: the time to drain to reach.
        budget: how much may be tried.
        max_cross_rack_cost: the cross-rack cost that the plan may have; None for no limit.
        enough: the time to drain that is good enough, if it is above the limit.
    """
    if model.max_drain_time(owner) <= limit:
        return owner
    working = WorkingPlan.of(model, owner, preferred_owner)
    while True:
        drain_time = working.drain_time()
        giver = int(np.argmax(drain_time))
        if drain_time[giver] <= limit:
            break
        good_enough = bool(drain_time[giver] <= enough)
        step = best_step(working, giver, drain_time, limit, budget, max_cross_rack_cost)
        if good_enough and (
            step is None
            or (drain_time[giver] - step.peak) * MAX_REMAINING_STEPS < drain_time[giver] - limit
        ):
            break
        if step is None:
            if relieve_by_chain(working, giver, budget, max_cross_rack_cost):
                continue
            break
        step.apply(working, giver)
    return working.owner


def _possible_takers(working: WorkingPlan, giver: int, drain_time: Floats) -> Longs:
    """Members that could relieve a member, the least loaded first."""
    component = working.model.component
    takers = np.flatnonzero((component == component[giver]) & (drain_time < drain_time[giver]))
    return takers[np.argsort(drain_time[takers], kind="stable")]


def best_step(
    working: WorkingPlan,
    giver: int,
    drain_time: Floats,
    limit: float,
    budget: WorkBudget,
    max_cross_rack_cost: int | None,
) -> ReliefStep | None:
    """The best step to one of the least loaded members.

    If there is none, to one of as many others as may be tried.
    """
    partitions = working.partitions_of(giver)
    leaving = _sample(working.model, partitions[working.model.load[partitions] > 0])
    if not len(leaving):
        return None
    takers = _possible_takers(working, giver, drain_time)
    affordable = (
        np.cumsum(np.minimum(working.member_count[takers[FIRST_TAKERS:]], MAX_SAMPLE) + 1)
        * len(leaving)
        <= MAX_PAIRS
    )
    begin = 0
    for end in (FIRST_TAKERS, FIRST_TAKERS + int(np.count_nonzero(affordable))):
        tried_takers = takers[begin:end]
        size = int((np.minimum(working.member_count[tried_takers], MAX_SAMPLE) + 1).sum())
        if not len(tried_takers) or not budget.spend(len(leaving) * size):
            break
        step = _evaluate_steps(working, giver, leaving, tried_takers, limit, max_cross_rack_cost)
        if step is not None:
            return step
        begin = end
    return None


def _evaluate_steps(
    working: WorkingPlan,
    giver: int,
    leaving: Longs,
    takers: Longs,
    limit: float,
    max_cross_rack_cost: int | None,
) -> ReliefStep | None:
    """The best step from a member to some others.

    None if no step lowers the longer time to drain of the two.
    """
    model = working.model
    returning, taker = _return_options(working, giver, takers)
    if not len(returning):
        return None
    returned, given = np.maximum(returning, 0), leaving[:, None]
    gain = model.load[given] - np.where(returning < 0, 0.0, model.load[returned])
    peak = np.maximum(
        (working.member_load[giver] - gain) / model.capacity[giver],
        (working.member_load[taker] + gain) / model.capacity[taker],
    )
    drain_now = working.member_load[giver] / model.capacity[giver]
    acceptable = (
        (gain > 0)
        & (peak < drain_now * (1 - 1e-12))
        & model.allowed[model.reader_set[leaving]][:, model.member_class[taker]]
    )
    cost = model.rack_remote[model.rack_set[leaving]] * model.weight[given]
    cross_rack_change = (
        cost[:, model.class_rack[model.member_class[taker]]]
        - cost[:, model.class_rack[model.member_class[[giver]]]]
    )
    cross_rack_change += np.where(returning < 0, 0, model.cross_rack_change(returned, taker, giver))
    if max_cross_rack_cost is not None:
        acceptable &= cross_rack_change <= max(
            max_cross_rack_cost - working.total_cross_rack_cost, 0
        )
    if not acceptable.any():
        return None
    lowest = np.where(acceptable, np.maximum(peak, limit), np.inf)
    row, column = np.nonzero(lowest == lowest.min())
    moves = working.moves_change(leaving[row], giver, taker[column])
    moves += np.where(
        returning[column] < 0, 0, working.moves_change(returned[column], taker[column], giver)
    )
    best = np.lexsort((column, row, peak[row, column], cross_rack_change[row, column], moves))[0]
    cell = int(row[best]), int(column[best])
    return ReliefStep(
        float(lowest[cell]),
        int(moves[best]),
        int(cross_rack_change[cell]),
        int(taker[cell[1]]),
        int(leaving[cell[0]]),
        int(returning[cell[1]]),
    )


def _return_options(working: WorkingPlan, giver: int, takers: Longs) -> tuple[Longs, Longs]:
    """Partitions that could come back, and their owners.

    A partition of -1 stands for none, where counts let none come back.
    """
    model = working.model
    samples = [_sample(model, working.partitions_of(taker)) for taker in takers.tolist()]
    returning = np.concatenate(samples)
    taker = np.repeat(takers, [len(sample) for sample in samples])
    allowed = model.may_own(returning, giver)
    with_room = takers[working.member_count[takers] < model.max_count[takers]]
    if working.member_count[giver] <= model.min_count[giver]:
        with_room = with_room[:0]
    return np.append(returning[allowed], np.full(len(with_room), -1)), np.append(
        taker[allowed], with_room
    )


def _sample(model: Model, partitions: Longs) -> Longs:
    """Few enough partitions to try all pairs.

    The heaviest, the lightest, and an even sample of the others.
    """
    if len(partitions) <= MAX_SAMPLE:
        return partitions
    order = partitions[np.argsort(model.load[partitions], kind="stable")]
    light, heavy = order[: MAX_SAMPLE // 6], order[-MAX_SAMPLE // 3 :]
    between = order[len(light) : -len(heavy)]
    sampled = np.linspace(0, len(between) - 1, MAX_SAMPLE - len(light) - len(heavy)).astype(
        np.int64
    )
    return np.sort(np.concatenate([light, np.unique(between[sampled]), heavy]))
