"""Relay chains: load that no member can take whole is passed on.

Each member on the chain keeps a little more of it.

A member above the limit gives a partition to another one, which passes on its lightest partition
that keeps it within the limit, and so on until a partition fits as it is. Every member on the chain
takes up as much as it can, so chains are short.

Guarantees: a chain is applied whole or not at all; counts stay within their limits, and no
partition becomes rack-remote.
Ties: the fewest moves, then partitions by number; the fullest taker with room.
Cost: O(P) for each step, within the work budget.
"""

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.model.working_plan import WorkingPlan
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

MAX_CHAIN_LENGTH = 24
"""Largest number of members on a chain."""


def relay(model: Model, owner: Ints, limit: float, budget: WorkBudget) -> Ints:
    """Return a plan in which members above the limit have passed on what they could.

    Args:
        model: the problem; partitions should stay with their keepable owners.
        owner: the plan.
        limit: the time to drain that no member should exceed.
        budget: how much may be tried.
    """
    if model.max_drain_time(owner) <= limit:
        return owner
    working = WorkingPlan.of(model, owner, model.keepable_owner)
    tried: set[int] = set()
    while True:
        over = np.flatnonzero(working.drain_time() > limit)
        over = over[~np.isin(over, np.fromiter(tried, dtype=np.int64))]
        if not len(over):
            return working.owner
        giver = int(over[np.argmax(working.drain_time()[over])])
        tried.add(giver)
        for partition in _starting_partitions(working, giver, limit):
            relayed = _relay_chain(working, partition, limit, budget)
            if relayed is None:
                return working.owner
            if relayed:
                break


def _starting_partitions(working: WorkingPlan, giver: int, limit: float) -> list[int]:
    """Partitions that a member could start a chain with.

    Those that it does not own now, the heaviest first, and the lightest partition that relieves it.
    """
    model, partitions = working.model, working.partitions_of(giver)
    if working.member_count[giver] <= model.min_count[giver]:
        return []
    load = model.load[partitions]
    unpreferred = partitions[working.preferred_owner[partitions] != giver]
    relieving = partitions[load >= working.member_load[giver] - limit * model.capacity[giver]]
    starts: list[int] = unpreferred[np.argsort(-model.load[unpreferred], kind="stable")].tolist()
    if len(relieving):
        starts.append(int(relieving[np.argmin(model.load[relieving])]))
    return starts


def _relay_chain(
    working: WorkingPlan, partition: int, limit: float, budget: WorkBudget
) -> bool | None:
    """Apply a chain from a partition; return whether there is one.

    None if the work budget is exhausted.
    """
    undo: list[tuple[int, int]] = []
    giver = int(working.owner[partition])
    for _ in range(MAX_CHAIN_LENGTH):
        if not budget.spend(3 * len(working.owner)):
            break
        taker = _final_taker(working, partition, limit)
        if taker is not None:
            working.move(partition, taker)
            return True
        next_partition = _next_partition(working, partition, giver, limit)
        if next_partition is None:
            break
        undo.append((partition, int(working.owner[partition])))
        working.move(partition, int(working.owner[next_partition]))
        partition = next_partition
    for moved, member in reversed(undo):
        working.move(moved, member)
    return None if budget.exhausted else False


def _suitable_takers(working: WorkingPlan, partition: int) -> Bools:
    """M: whether the member may own the partition at no higher cross-rack cost."""
    model = working.model
    owner, members = int(working.owner[partition]), np.arange(len(model.member_class))
    suitable = model.may_own(partition, members)
    suitable &= model.cross_rack_change(partition, owner, members) <= 0
    suitable[owner] = False
    return suitable


def _final_taker(working: WorkingPlan, partition: int, limit: float) -> int | None:
    """The fullest member with room for a partition as it is; None if there is none."""
    model = working.model
    drain_after = (working.member_load + model.load[partition]) / model.capacity
    takers = np.flatnonzero(
        _suitable_takers(working, partition)
        & (working.member_count < model.max_count)
        & (drain_after <= limit)
    )
    return int(takers[np.argmax(drain_after[takers])]) if len(takers) else None


def _next_partition(working: WorkingPlan, partition: int, giver: int, limit: float) -> int | None:
    """The partition that the taker of a partition passes on; None if there is none."""
    model, owner = working.model, working.owner
    suitable = np.append(_suitable_takers(working, partition), False)
    suitable[giver] = False
    room: Floats = np.append(
        limit * model.capacity - working.member_load - model.load[partition], 0.0
    )
    candidates: Longs = np.flatnonzero(
        suitable[owner] & (model.load < model.load[partition]) & (model.load >= -room[owner])
    )
    if not len(candidates):
        return None
    is_move = working.preferred_owner[candidates] == owner[candidates]
    return int(candidates[np.lexsort((candidates, is_move, model.load[candidates]))[0]])
