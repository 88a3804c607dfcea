"""What is too heavy for anybody passed from member to member, each of whom keeps a little more of it.

Law: a member that is above the limit gives a partition to another, who passes on the lightest of its own with which it stays
within the limit, and so on until one fits as it is: every member on the way takes up as much as it can, so few are on it. One
way is taken whole or not at all; counts stay within theirs, and nothing crosses racks that did not.
Ties: what moves least, then partitions by number; the fullest taker that has room.
Cost: O(P) for each step, within the effort.
"""

import numpy as np

from assignors.optimal.model.model import Model
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.model.working_plan import WorkingPlan
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
)

LONGEST = 24  # members on a way


def passed(terms: Model, owner: Ints, limit: float, effort: WorkBudget) -> Ints:
    """A plan in which members above the limit have passed on what they could.

    Args:
        terms: the problem; what is held should stay.
        owner: the plan.
        limit: the time to drain that nobody should be above.
        effort: how much may be tried.
    """
    if terms.drain(owner) <= limit:
        return owner
    bench = WorkingPlan.of(terms, owner, terms.held)
    tried: set[int] = set()
    while True:
        over = np.flatnonzero(bench.drain() > limit)
        over = over[~np.isin(over, np.fromiter(tried, dtype=np.int64))]
        if not len(over):
            return bench.owner
        giver = int(over[np.argmax(bench.drain()[over])])
        tried.add(giver)
        for partition in _first(bench, giver, limit):
            done = _way(bench, partition, limit, effort)
            if done is None:
                return bench.owner
            if done:
                break


def _first(bench: WorkingPlan, giver: int, limit: float) -> list[int]:
    """What a member could begin with: what it does not hold, the heaviest first, and the lightest that relieves it."""
    terms, mine = bench.terms, bench.of_member(giver)
    if bench.count[giver] <= terms.least[giver]:
        return []
    load = terms.load[mine]
    strange = mine[bench.held[mine] != giver]
    enough = mine[load >= bench.work[giver] - limit * terms.capacity[giver]]
    first: list[int] = strange[np.argsort(-terms.load[strange], kind="stable")].tolist()
    if len(enough):
        first.append(int(enough[np.argmin(terms.load[enough])]))
    return first


def _way(bench: WorkingPlan, partition: int, limit: float, effort: WorkBudget) -> bool | None:
    """Pass a partition on until all is well; False: there is no way, None: no effort is left."""
    undo: list[tuple[int, int]] = []
    giver = int(bench.owner[partition])
    for _ in range(LONGEST):
        if not effort.spend(3 * len(bench.owner)):
            break
        taker = _end(bench, partition, limit)
        if taker is not None:
            bench.give(partition, taker)
            return True
        onward = _onward(bench, partition, giver, limit)
        if onward is None:
            break
        undo.append((partition, int(bench.owner[partition])))
        bench.give(partition, int(bench.owner[onward]))
        partition = onward
    for part, member in reversed(undo):
        bench.give(part, member)
    return None if effort.spent else False


def _suits(bench: WorkingPlan, partition: int) -> Bools:
    """M: may have it, and it crosses no more racks there."""
    terms = bench.terms
    one, members = np.array([partition]), np.arange(len(terms.kind))
    now = terms.crossing(one, bench.owner[one])
    suits = terms.may(one, members) & (terms.crossing(one, members) <= now)
    suits[bench.owner[partition]] = False
    return suits


def _end(bench: WorkingPlan, partition: int, limit: float) -> int | None:
    """Who has room for a partition as things are."""
    terms = bench.terms
    after = (bench.work + terms.load[partition]) / terms.capacity
    good = np.flatnonzero(_suits(bench, partition) & (bench.count < terms.most) & (after <= limit))
    return int(good[np.argmax(after[good])]) if len(good) else None


def _onward(bench: WorkingPlan, partition: int, giver: int, limit: float) -> int | None:
    """What is passed on next by whoever takes a partition."""
    terms, owner = bench.terms, bench.owner
    suits = np.append(_suits(bench, partition), False)
    suits[giver] = False
    room: Floats = np.append(limit * terms.capacity - bench.work - terms.load[partition], 0.0)
    good: Longs = np.flatnonzero(
        suits[owner] & (terms.load < terms.load[partition]) & (terms.load >= -room[owner])
    )
    if not len(good):
        return None
    moves = bench.held[good] == owner[good]
    return int(good[np.lexsort((good, moves, terms.load[good]))[0]])
