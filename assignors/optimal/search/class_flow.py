"""Rack locality at fixed counts, solved exactly.

A flow decides how many partitions of each class go to each member class.

Partitions with the same possible owners, replica racks and about the same traffic form one
*partition class*; those of them that members of one class own form one *owned class*. Within
either, partitions are interchangeable here, so a min-cost flow is exact whatever their numbers.

Guarantees: the lowest cross-rack cost first, then the fewest partitions that change the member
class of their owner. A partition class is spread over the member classes that suit it equally,
which leaves choices for load.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from levelwind.assignors.optimal.model.model import Model, sum_by_index
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Ints, Longs, numbered
from levelwind.assignors.solver import Arcs, concat_arcs, min_cost_flow

RackMode: TypeAlias = Literal["all", "load_first", "unowned", "none"]
"""Part of the cross-rack cost that a plan avoids.

The cost of all partitions (`all`), as much of it as load does not need (`load_first`), the cost of
unowned partitions only (`unowned`), or nothing (`none`).
"""
MAX_DISTINCT_WEIGHTS = 32
"""Distinct weights up to which weights stay exact, if they are below `MAX_UNIT_WEIGHT`."""
MAX_UNIT_WEIGHT = 2**16
"""Largest weight in units after rounding."""
CLASS_CHANGE_COST = 64
"""Cost of a partition that changes the class of its owner.

The unit is the cost of one partition off the even spread of its class.
"""
SIGNIFICANT_BITS = 4
"""Leading bits that rounded weights keep."""
MAX_ARCS = 300_000
"""Arcs beyond which partition classes ignore weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionClasses:
    """Interchangeable partitions, as a min-cost flow sees them."""

    class_of: Longs
    """By assignable partition: its partition class."""
    sample: Longs
    """By partition class: one of its partitions."""
    weight: Longs
    """By partition class: lowest cross-rack cost of one of its partitions, in `unit`s."""
    unit: float
    """Cross-rack cost of one unit of `weight`."""
    owned_class: Longs
    """By assignable partition: its owned class; -1 if it has no preferred owner."""
    owned_partition_class: Longs
    """By owned class: its partition class."""
    owned_member_class: Longs
    """By owned class: the member class of its owners."""
    owned_size: Longs
    """By owned class: number of its partitions."""
    unowned: Longs
    """By partition class: number of its partitions without a preferred owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFlow:
    """Numbers of partitions by partition class and member class that a flow moves."""

    released: Longs
    """By owned class: how many of its partitions leave the member class of their owners."""
    partition_class: Longs
    """By arc: the partition class that it starts from."""
    member_class: Longs
    """By arc: the member class that it leads to."""
    amount: Longs
    """By arc: how many unowned or released partitions it carries."""


def classify_partitions(model: Model, preferred_owner: Ints) -> PartitionClasses:
    """Classify the assignable partitions, ignoring weights where the classes would be too many."""
    assignable = np.flatnonzero(model.assignable)
    weight, unit = _quantize(model.weight[assignable])
    base = numbered(
        model.reader_set[assignable] * len(model.rack_remote) + model.rack_set[assignable]
    )
    class_of = numbered(base * (int(weight.max(initial=0)) + 1) + weight)
    if (int(class_of.max(initial=-1)) + 1) * model.class_count > MAX_ARCS:
        class_of = base
    count = int(class_of.max(initial=-1)) + 1
    sample = np.zeros(count, dtype=np.int64)
    sample[class_of[::-1]] = assignable[::-1]
    class_weight = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(class_weight, class_of, weight)
    owned = np.flatnonzero(preferred_owner[assignable] >= 0)
    member_classes = model.class_count
    pair, number = np.unique(
        class_of[owned] * member_classes + model.member_class[preferred_owner[assignable[owned]]],
        return_inverse=True,
    )
    owned_class = np.full(len(assignable), -1, dtype=np.int64)
    owned_class[owned] = number.ravel()
    return PartitionClasses(
        class_of=class_of,
        sample=sample,
        weight=class_weight,
        unit=unit,
        owned_class=owned_class,
        owned_partition_class=pair // max(member_classes, 1),
        owned_member_class=pair % max(member_classes, 1),
        owned_size=np.bincount(owned_class[owned], minlength=len(pair)),
        unowned=np.bincount(class_of[owned_class < 0], minlength=count),
    )


def _quantize(weight: Longs) -> tuple[Longs, float]:
    """Round weights to few small integers; few and small weights stay as they are.

    Returns the weights and the cross-rack cost of one unit.
    """
    top = int(weight.max(initial=0))
    if int(weight.min(initial=top)) == top:
        return np.minimum(weight, 1), float(top)
    if top < MAX_UNIT_WEIGHT and len(np.unique(weight)) <= MAX_DISTINCT_WEIGHTS:
        return weight, 1.0
    unit = max(top / MAX_UNIT_WEIGHT, 1.0)
    small = (weight / unit).astype(np.int64)
    tail = np.maximum(np.frexp(small.astype(np.float64))[1] - SIGNIFICANT_BITS, 0)
    # A weight below one unit still counts as one: else its cross-rack reads would cost nothing.
    return np.where(weight > 0, np.maximum(small >> tail << tail, 1), 0), unit


def cross_rack_bound(model: Model) -> int:
    """Lowest cross-rack cost of any plan within the count limits, whoever owns what."""
    no_owner = np.full(len(model.reader_set), NOBODY, dtype=np.int32)
    classified = classify_partitions(model, no_owner)
    flow = solve_class_flow(model, classified, "all")
    remote = model.rack_remote[
        model.rack_set[classified.sample[flow.partition_class]], model.class_rack[flow.member_class]
    ]
    least_cost = float((flow.amount * remote * classified.weight[flow.partition_class]).sum())
    if classified.unit == round(classified.unit) and classified.unit * MAX_UNIT_WEIGHT > float(
        model.weight.max(initial=0)
    ):
        return round(least_cost * classified.unit)  # the weights were not rounded
    light = int(np.count_nonzero(model.weight[model.assignable] < classified.unit))
    return max(int((least_cost - light) * classified.unit * (1 - 1e-12)), 0)


def solve_class_flow(model: Model, classified: PartitionClasses, rack_mode: RackMode) -> ClassFlow:
    """Compute how many partitions of each class go to each member class.

    And how many partitions leave each owned class for that.
    """
    count, owned_classes = len(classified.sample), len(classified.owned_size)
    partition_class, member_class = np.nonzero(model.allowed[model.reader_set[classified.sample]])
    crossing_price = (CLASS_CHANGE_COST + 1) * (len(classified.class_of) + 1)
    price = classified.weight * (crossing_price if rack_mode != "none" else 0)
    cost = np.where(
        model.rack_remote[
            model.rack_set[classified.sample[partition_class]], model.class_rack[member_class]
        ],
        price[partition_class],
        0,
    )
    remote = model.rack_remote[
        model.rack_set[classified.sample[classified.owned_partition_class]],
        model.class_rack[classified.owned_member_class],
    ]
    stay = np.where(remote & (rack_mode != "unowned"), price[classified.owned_partition_class], 0)
    share = _even_shares(model, classified, partition_class, member_class, cost)
    class_size = classified.unowned + np.bincount(
        classified.owned_partition_class, weights=classified.owned_size, minlength=count
    ).astype(np.int64)
    owned_node = count + np.arange(owned_classes)
    first = count + owned_classes
    leave = np.full(owned_classes, CLASS_CHANGE_COST)
    class_arcs = concat_arcs(
        Arcs(owned_node, first + classified.owned_member_class, classified.owned_size, stay),
        Arcs(owned_node, classified.owned_partition_class, classified.owned_size, leave),
        Arcs(partition_class, first + member_class, share, cost),
        Arcs(partition_class, first + member_class, class_size[partition_class] - share, cost + 1),
    )
    count_arcs, demand = _count_arcs(model, first)
    supply = np.concatenate([classified.unowned, classified.owned_size, -demand])
    amounts = min_cost_flow(concat_arcs(class_arcs, count_arcs), supply)
    if amounts is None:
        raise RuntimeError("no flow meets the counts, although they were computed to be feasible")
    _, released, even, beyond = np.split(
        amounts[: len(class_arcs.tail)],
        np.cumsum([owned_classes, owned_classes, len(partition_class)]),
    )
    used = np.flatnonzero(even + beyond)
    return ClassFlow(
        released=released,
        partition_class=partition_class[used],
        member_class=member_class[used],
        amount=(even + beyond)[used],
    )


def _even_shares(
    model: Model,
    classified: PartitionClasses,
    partition_class: Longs,
    member_class: Longs,
    cost: Longs,
) -> Longs:
    """By arc: its even share of the unowned partitions of a class.

    Only the member classes that suit the partition class best have a share, by their members at
    slack 0 and else by their capacity.
    """
    best = np.full(len(classified.sample), np.iinfo(np.int64).max)
    np.minimum.at(best, partition_class, cost)
    cheapest = cost == best[partition_class]
    weight = np.ones(len(model.member_class)) if not model.slack else model.capacity
    members = sum_by_index(model.member_class, weight / weight.max(), model.class_count)[
        member_class
    ]
    class_members = np.bincount(
        partition_class, weights=np.where(cheapest, members, 0), minlength=len(classified.sample)
    )[partition_class]
    share = classified.unowned[partition_class] * members / np.where(cheapest, class_members, 1)
    return np.where(cheapest, np.floor(share + 1e-9), 0).astype(np.int64)


def _count_arcs(model: Model, first: int) -> tuple[Arcs, Longs]:
    """Arcs from member classes to the sink.

    They carry the minimum counts, and the extras of components, which classes share.

    Returns the arcs and the demand of the nodes from `first` on.
    """
    member_classes, components = model.class_count, len(model.components.quota)
    min_count = np.bincount(
        model.member_class, weights=model.min_count, minlength=member_classes
    ).astype(np.int64)
    max_count = np.bincount(
        model.member_class, weights=model.max_count, minlength=member_classes
    ).astype(np.int64)
    component = model.components.of_eligibility[model.eligibility]
    inside = component >= 0
    node = first + np.arange(member_classes)
    extra, sink = (
        first + member_classes + np.arange(components),
        first + member_classes + components,
    )
    arcs = concat_arcs(
        Arcs(node, np.full(member_classes, sink), min_count),
        Arcs(node[inside], extra[component[inside]], (max_count - min_count)[inside]),
        Arcs(extra, np.full(components, sink), model.extra_partitions),
    )
    demand = np.zeros(member_classes + components + 1, dtype=np.int64)
    demand[-1] = np.count_nonzero(model.assignable)
    return arcs, demand
