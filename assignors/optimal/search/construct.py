"""A plan made: from nobody's claims, or from what members hold with as few moves as counts and racks allow.

Law: counts are met, and of those plans the least weight crosses racks, and of those the fewest partitions change hands that
the classes of the flow can tell apart. Load decides everything that is left open.
Ties: members by id, partitions by number.
"""

import numpy as np

from assignors.optimal.model.model import (
    Model,
    summed,
)
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.search.class_exchange import levelled_kinds
from assignors.optimal.search.class_flow import (
    ClassFlow,
    PartitionClasses,
    Racks,
    classes,
    shipped,
)
from assignors.optimal.search.deal import dealt
from assignors.problem.assignment import NOBODY
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
    within,
)

AGAIN = 3  # times that a kind of members of several capacities is dealt to


def place(terms: Model, held: Ints, effort: WorkBudget, racks: Racks = "all") -> Ints:
    """The owners.

    Args:
        terms: the problem.
        held: by partition, the member that should keep it where that costs nothing else; -1 nobody.
        effort: how much may be tried to level kinds.
        racks: whether the weight across racks counts for all, as far as load does not need more of it to cross, only for what
            nobody holds, or not at all.
    """
    there = np.flatnonzero(terms.taken)
    owner = np.full(len(terms.reader_set), NOBODY, dtype=np.int32)
    if not len(there):
        return owner
    fresh = not bool((held >= 0).any())
    kind = np.zeros(len(owner), dtype=np.int64)
    if len(terms.signature) > 1:
        classed = classes(terms, held)
        kind[there] = _chosen(terms, there, held, classed, shipped(terms, classed, racks))
        if fresh:
            levelled_kinds(terms, there, kind, effort, racks=racks != "none", pay=racks == "paid")
    if not fresh:
        stays = there[(held[there] >= 0)]
        stays = stays[terms.kind[held[stays]] == kind[stays]]
        owner[stays] = held[stays]
        _trim(terms, owner, np.bincount(kind[there], minlength=len(terms.signature)))
    _deal(terms, there, kind, owner)
    return owner


def _chosen(
    terms: Model, there: Longs, held: Ints, classed: PartitionClasses, sent: ClassFlow
) -> Longs:
    """By taken partition: the kind that it goes to."""
    kind = np.full(len(there), -1, dtype=np.int64)
    stays = np.flatnonzero(classed.holding >= 0)
    if sent.left.any():
        stays = stays[~_leaving(terms, there[stays], held, classed.holding[stays], sent.left)]
    kind[stays] = classed.holder[classed.holding[stays]]
    pool = np.flatnonzero(kind < 0)
    order = pool[np.lexsort((there[pool], -terms.load[there[pool]], classed.of[pool]))]
    klass, to = np.repeat(sent.klass, sent.amount), np.repeat(sent.kind, sent.amount)
    spread = (within(sent.amount) + 0.5) / np.repeat(sent.amount, sent.amount)
    kind[order] = to[np.lexsort((to, spread, klass))]
    return kind


def _leaving(terms: Model, partitions: Longs, held: Ints, holding: Longs, left: Longs) -> Bools:
    """Which of some held partitions leave: first what their owners have too many of, then the least load."""
    load, owner, count = terms.load[partitions], held[partitions], terms.count(held)
    order = np.lexsort((partitions, load, owner))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = within(np.bincount(owner, minlength=len(count)))
    settled = rank >= np.maximum(count - terms.most, 0)[owner]
    order = np.lexsort((partitions, load, settled, holding))
    leaving = np.empty(len(order), dtype=np.bool_)
    leaving[order] = within(np.bincount(holding, minlength=len(left))) < left[holding[order]]
    return leaving


def _trim(terms: Model, owner: Ints, total: Longs) -> None:
    """Take from members what they have too many of, so that their kind's total fits."""
    count, work = terms.count(owner), terms.work(owner)
    kinds = len(terms.signature)
    size = np.bincount(terms.kind, minlength=kinds)
    least = np.bincount(terms.kind, weights=terms.least, minlength=kinds).astype(np.int64)
    pool = total - least
    wish = np.clip(count - terms.least, 0, terms.most - terms.least)
    order = np.lexsort((np.arange(len(count)), work / terms.capacity, terms.kind))
    ahead = np.cumsum(wish[order]) - wish[order]
    first = np.repeat(ahead[np.concatenate([[0], np.cumsum(size)[:-1]])], size)
    granted = np.empty(len(count), dtype=np.int64)
    granted[order] = np.clip(pool[terms.kind[order]] - (ahead - first), 0, wish[order])
    surplus = count - np.minimum(count, terms.least + granted)
    if not surplus.any():
        return
    capacity = summed(terms.kind, terms.capacity, kinds)
    goal = terms.capacity * (summed(terms.kind, work, kinds) / capacity)[terms.kind]
    each = np.maximum(work - goal, 0) / np.maximum(surplus, 1)
    mine = np.flatnonzero((owner >= 0) & (surplus[owner] > 0))
    gap = np.abs(terms.load[mine] - each[owner[mine]])
    order = np.lexsort((mine, terms.load[mine], gap, owner[mine]))
    there = np.bincount(owner[mine], minlength=len(count))
    gone = mine[order[within(there[there > 0]) < np.repeat(surplus[there > 0], there[there > 0])]]
    owner[gone] = NOBODY


def _deal(terms: Model, there: Longs, kind: Longs, owner: Ints) -> None:
    free = there[owner[there] < 0]
    if not len(free):
        return
    order = np.lexsort((free, -terms.load[free], kind[free]))
    free = free[order]
    kinds = len(terms.signature)
    total = summed(kind[there], terms.load[there], kinds)
    capacity = summed(terms.kind, terms.capacity, kinds)
    share = total / capacity
    count, work = terms.count(owner), terms.work(owner)
    by_kind = np.argsort(terms.kind, kind="stable")
    ends = np.cumsum(np.bincount(terms.kind, minlength=kinds)).tolist()
    begins = [0, *ends[:-1]]
    waiting = np.searchsorted(kind[free], np.arange(kinds + 1)).tolist()
    for number in np.unique(kind[free]).tolist():
        mine = by_kind[begins[number] : ends[number]]
        parts = free[waiting[number] : waiting[number + 1]]
        room = terms.capacity[mine] * share[number] - work[mine]
        owner[parts] = mine[_even(terms, parts, mine, room, count[mine], work[mine])]


def _even(
    terms: Model, parts: Longs, mine: Longs, room: Floats, count: Longs, work: Floats
) -> Longs:
    """The members that partitions go to. Where capacities differ, again with room for what came out too much or too little."""
    load, capacity = terms.load[parts], terms.capacity[mine]
    least, most = terms.least[mine], terms.most[mine]
    best = dealt(load, room, count, least, most)
    if bool((capacity == capacity[0]).all()):
        return best
    goal = (work + room) / capacity
    lowest, taker = np.inf, best
    for _ in range(AGAIN):
        excess = (work + summed(taker, load, len(mine))) / capacity - goal
        if excess.max() < lowest:
            lowest, best = float(excess.max()), taker
        room = room - excess * capacity
        taker = dealt(load, room, count, least, most)
    return best
