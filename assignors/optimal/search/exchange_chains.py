"""Exchange chains: a heavy partition leaves through a chain of light ones.

They help where subscriptions differ, and keep the counts.

Guarantees: the most loaded member passes one of its heaviest partitions to a reader. The shortest
chain of members mends the counts that this upsets; each member passes its lightest partition on to
the next one that may own it. A chain is taken only if every member on it then has less than the
most loaded member had, and the cross-rack cost stays within its limit.
Ties: the lightest partitions, then the least loaded takers.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.problem.columns import Floats, Longs

MAX_MEMBERS = 200
"""Members of the largest group in which chains are searched."""
MAX_STARTS = 8
"""Partitions of the giver that a chain may start with."""


@dataclass(frozen=True, slots=True)
class ExchangeChain:
    """Partitions and their new owners, in order."""

    partitions: tuple[int, ...]
    """Partitions that change their owner, from the giver's on."""
    members: tuple[int, ...]
    """New owner of each of them."""


def relieve_by_chain(
    working: WorkingPlan, giver: int, budget: WorkBudget, max_cross_rack_cost: int | None
) -> bool:
    """Relieve a member through a chain; return whether one was found."""
    model = working.model
    if len(model.member_class) > MAX_MEMBERS or bool((model.allowed == model.allowed[:1]).all()):
        return False
    drain_time = working.drain_time()
    partitions = working.partitions_of(giver)
    heavy = partitions[np.argsort(-model.load[partitions], kind="stable")][:MAX_STARTS]
    heavy = heavy[model.load[heavy] > 0]
    lightest = _lightest_partitions(working)
    for partition in heavy.tolist():
        takers = model.takers(partition)
        drain_after = (working.member_load[takers] + model.load[partition]) / model.capacity[takers]
        takers = takers[(takers != giver) & (drain_after < drain_time[giver])]
        for taker in takers[np.argsort(drain_time[takers], kind="stable")].tolist():
            if not budget.spend(len(model.member_class) ** 2):
                return False
            chain = _find_chain(working, lightest, partition, giver, taker)
            if chain is not None and _apply_if_better(
                working, chain, float(drain_time[giver]), max_cross_rack_cost
            ):
                return True
    return False


def _lightest_partitions(working: WorkingPlan) -> Longs:
    """Lightest partition of each reader set that each member owns (A x M); -1 for none."""
    model = working.model
    owned = np.flatnonzero(working.owner >= 0)
    order = owned[np.lexsort((-owned, -model.load[owned]))]
    lightest = np.full((len(model.allowed), len(model.member_class)), -1, dtype=np.int64)
    # Loads descend, so the lightest partition is written last.
    lightest[model.reader_set[order], working.owner[order]] = order
    return lightest


def _find_chain(
    working: WorkingPlan, lightest: Longs, partition: int, giver: int, taker: int
) -> ExchangeChain | None:
    """The shortest chain that takes a partition from giver to taker and keeps the counts."""
    model = working.model
    at_min = working.member_count[giver] <= model.min_count[giver]
    at_max = working.member_count[taker] >= model.max_count[taker]
    if not at_min and not at_max:
        return ExchangeChain((partition,), (taker,))
    with_spare = np.flatnonzero(
        (working.member_count > model.min_count) & (model.component == model.component[giver])
    )
    with_room = np.flatnonzero(
        (working.member_count < model.max_count) & (model.component == model.component[giver])
    )
    starts = [taker] if at_max else sorted({taker, *with_spare.tolist()} - {giver})
    ends = {giver} if at_min else set(with_room.tolist())
    reached_from: dict[int, tuple[int, int]] = dict.fromkeys(starts, (-1, -1))
    queue = deque(starts)
    while queue:
        member = queue.popleft()
        if member in ends and member not in starts:
            return _trace_back(reached_from, partition, taker, member)
        partitions = lightest[:, member]
        partitions = partitions[(partitions >= 0) & (partitions != partition)]
        partitions = partitions[np.argsort(model.load[partitions], kind="stable")]
        for passed_on in partitions.tolist():
            for next_member in model.takers(passed_on).tolist():
                if next_member not in reached_from:
                    reached_from[next_member] = (member, passed_on)
                    queue.append(next_member)
    return None


def _trace_back(
    reached_from: dict[int, tuple[int, int]], partition: int, taker: int, end: int
) -> ExchangeChain:
    """The chain that ends at a member, from the search tree."""
    partitions, members = [partition], [taker]
    member = end
    while reached_from[member][0] >= 0:
        previous, passed_on = reached_from[member]
        partitions.append(passed_on)
        members.append(member)
        member = previous
    return ExchangeChain(tuple(partitions), tuple(members))


def _apply_if_better(
    working: WorkingPlan, chain: ExchangeChain, peak: float, max_cross_rack_cost: int | None
) -> bool:
    """Apply a chain unless a member on it would reach the peak or the cross-rack cost its limit."""
    model = working.model
    partitions, members = np.array(chain.partitions), np.array(chain.members)
    if len(set(chain.partitions)) < len(partitions):
        return False
    before = working.owner[partitions]
    load: Floats = working.member_load.copy()
    np.subtract.at(load, before, model.load[partitions])
    np.add.at(load, members, model.load[partitions])
    if float((load / model.capacity)[members].max()) >= peak * (1 - 1e-12):
        return False
    cross_rack_change = int(model.cross_rack_change(partitions, before, members).sum())
    if max_cross_rack_cost is not None and cross_rack_change > max(
        max_cross_rack_cost - working.total_cross_rack_cost, 0
    ):
        return False
    for partition, member in zip(chain.partitions, chain.members, strict=True):
        working.move(partition, member)
    return True
