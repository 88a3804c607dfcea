"""Construct a plan from scratch, or from preferred owners with few moves.

Guarantees: counts are within their limits; of such plans the cross-rack cost is lowest, and of
these the fewest partitions that the classes of the flow can tell apart change their owner. Load
decides everything that is left open.
Ties: members by id, partitions by number.
"""

import numpy as np

from levelwind.assignors.optimal.model.model import Model, sum_by_index
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.class_exchange import balance_classes
from levelwind.assignors.optimal.search.class_flow import (
    ClassFlow,
    PartitionClasses,
    RackMode,
    classify_partitions,
    solve_class_flow,
)
from levelwind.assignors.optimal.search.deal import deal
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs, within

CAPACITY_ROUNDS = 3
"""Rounds of dealing to a member class of several capacities."""


def construct(
    model: Model, preferred_owner: Ints, budget: WorkBudget, rack_mode: RackMode = "all"
) -> Ints:
    """Construct the owner of each partition (P); -1 where no member may own it.

    Args:
        model: the problem.
        preferred_owner: the member that should keep the partition where that costs nothing else
            (P); -1 for none.
        budget: how much may be tried to balance member classes.
        rack_mode: whether the cross-rack cost counts for all partitions, as far as load does not
            need more of it, only for unowned partitions, or not at all.
    """
    assignable = np.flatnonzero(model.assignable)
    owner = np.full(len(model.reader_set), NOBODY, dtype=np.int32)
    if not len(assignable):
        return owner
    from_scratch = not bool((preferred_owner >= 0).any())
    member_class = np.zeros(len(owner), dtype=np.int64)
    if model.class_count > 1:
        classified = classify_partitions(model, preferred_owner)
        member_class[assignable] = _choose_classes(
            model,
            assignable,
            preferred_owner,
            classified,
            solve_class_flow(model, classified, rack_mode),
        )
        if from_scratch:
            balance_classes(
                model,
                assignable,
                member_class,
                budget,
                racks=rack_mode != "none",
                pay=rack_mode == "load_first",
            )
    if not from_scratch:
        stays = assignable[(preferred_owner[assignable] >= 0)]
        stays = stays[model.member_class[preferred_owner[stays]] == member_class[stays]]
        owner[stays] = preferred_owner[stays]
        _trim(model, owner, np.bincount(member_class[assignable], minlength=model.class_count))
    _deal_unowned(model, assignable, member_class, owner)
    return owner


def _choose_classes(
    model: Model,
    assignable: Longs,
    preferred_owner: Ints,
    classified: PartitionClasses,
    flow: ClassFlow,
) -> Longs:
    """By assignable partition: the member class that it goes to."""
    member_class = np.full(len(assignable), -1, dtype=np.int64)
    stays = np.flatnonzero(classified.owned_class >= 0)
    if flow.released.any():
        stays = stays[
            ~_released(
                model,
                assignable[stays],
                preferred_owner,
                classified.owned_class[stays],
                flow.released,
            )
        ]
    member_class[stays] = classified.owned_member_class[classified.owned_class[stays]]
    open_partitions = np.flatnonzero(member_class < 0)
    order = open_partitions[
        np.lexsort(
            (
                assignable[open_partitions],
                -model.load[assignable[open_partitions]],
                classified.class_of[open_partitions],
            )
        )
    ]
    partition_class, destination = (
        np.repeat(flow.partition_class, flow.amount),
        np.repeat(flow.member_class, flow.amount),
    )
    spread = (within(flow.amount) + 0.5) / np.repeat(flow.amount, flow.amount)
    member_class[order] = destination[np.lexsort((destination, spread, partition_class))]
    return member_class


def _released(
    model: Model, partitions: Longs, preferred_owner: Ints, owned_class: Longs, released: Longs
) -> Bools:
    """Mask of the owned partitions that leave the member class of their owner.

    Partitions that their owners have too many of leave first, then those with the least load.
    """
    load, owner, count = (
        model.load[partitions],
        preferred_owner[partitions],
        model.member_count(preferred_owner),
    )
    order = np.lexsort((partitions, load, owner))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = within(np.bincount(owner, minlength=len(count)))
    kept = rank >= np.maximum(count - model.max_count, 0)[owner]
    order = np.lexsort((partitions, load, kept, owned_class))
    leaving = np.empty(len(order), dtype=np.bool_)
    leaving[order] = (
        within(np.bincount(owned_class, minlength=len(released))) < released[owned_class[order]]
    )
    return leaving


def _trim(model: Model, owner: Ints, total: Longs) -> None:
    """Take partitions beyond the counts from members, in place.

    The total of each member class then fits.
    """
    count, member_load = model.member_count(owner), model.member_load(owner)
    classes = model.class_count
    size = np.bincount(model.member_class, minlength=classes)
    min_count = np.bincount(model.member_class, weights=model.min_count, minlength=classes).astype(
        np.int64
    )
    extras = total - min_count
    wanted = np.clip(count - model.min_count, 0, model.max_count - model.min_count)
    order = np.lexsort((np.arange(len(count)), member_load / model.capacity, model.member_class))
    ahead = np.cumsum(wanted[order]) - wanted[order]
    first = np.repeat(ahead[np.concatenate([[0], np.cumsum(size)[:-1]])], size)
    granted = np.empty(len(count), dtype=np.int64)
    granted[order] = np.clip(extras[model.member_class[order]] - (ahead - first), 0, wanted[order])
    surplus = count - np.minimum(count, model.min_count + granted)
    if not surplus.any():
        return
    capacity = sum_by_index(model.member_class, model.capacity, classes)
    goal = (
        model.capacity
        * (sum_by_index(model.member_class, member_load, classes) / capacity)[model.member_class]
    )
    ideal_load = np.maximum(member_load - goal, 0) / np.maximum(surplus, 1)
    partitions = np.flatnonzero((owner >= 0) & (surplus[owner] > 0))
    gap = np.abs(model.load[partitions] - ideal_load[owner[partitions]])
    order = np.lexsort((partitions, model.load[partitions], gap, owner[partitions]))
    owned = np.bincount(owner[partitions], minlength=len(count))
    leaving = partitions[
        order[within(owned[owned > 0]) < np.repeat(surplus[owned > 0], owned[owned > 0])]
    ]
    owner[leaving] = NOBODY


def _deal_unowned(model: Model, assignable: Longs, member_class: Longs, owner: Ints) -> None:
    """Deal the partitions without an owner to the members of their classes, in place."""
    unowned = assignable[owner[assignable] < 0]
    if not len(unowned):
        return
    order = np.lexsort((unowned, -model.load[unowned], member_class[unowned]))
    unowned = unowned[order]
    classes = model.class_count
    total = sum_by_index(member_class[assignable], model.load[assignable], classes)
    capacity = sum_by_index(model.member_class, model.capacity, classes)
    share = total / capacity
    count, member_load = model.member_count(owner), model.member_load(owner)
    by_class = np.argsort(model.member_class, kind="stable")
    ends = np.cumsum(np.bincount(model.member_class, minlength=classes)).tolist()
    starts = [0, *ends[:-1]]
    first_unowned = np.searchsorted(member_class[unowned], np.arange(classes + 1)).tolist()
    for number in np.unique(member_class[unowned]).tolist():
        members = by_class[starts[number] : ends[number]]
        partitions = unowned[first_unowned[number] : first_unowned[number + 1]]
        room = model.capacity[members] * share[number] - member_load[members]
        owner[partitions] = members[
            _deal_within_class(
                model, partitions, members, room, count[members], member_load[members]
            )
        ]


def _deal_within_class(
    model: Model, partitions: Longs, members: Longs, room: Floats, count: Longs, member_load: Floats
) -> Longs:
    """Choose the member of each partition within one member class.

    Where capacities differ, dealing is repeated with room for what came out too much or too little;
    the best round counts.
    """
    load, capacity = model.load[partitions], model.capacity[members]
    min_count, max_count = model.min_count[members], model.max_count[members]
    best = deal(load, room, count, min_count, max_count)
    if bool((capacity == capacity[0]).all()):
        return best
    goal = (member_load + room) / capacity
    lowest, taker = np.inf, best
    for _ in range(CAPACITY_ROUNDS):
        excess = (member_load + sum_by_index(taker, load, len(members))) / capacity - goal
        if excess.max() < lowest:
            lowest, best = float(excess.max()), taker
        room = room - excess * capacity
        taker = deal(load, room, count, min_count, max_count)
    return best
