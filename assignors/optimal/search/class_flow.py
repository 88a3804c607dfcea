"""How many partitions of each class go to each kind of member: locality at fixed counts, solved exactly.

Law: partitions that the same members may have, with replicas in the same racks and of about the same traffic are one *class*,
and those of a class that one kind of members owns are one *holding*; within each they are interchangeable here, so a min-cost
flow is exact whatever their numbers. Least weight across racks first, then fewest partitions that change their kind of owner.
A class is spread over the kinds that suit it equally, which leaves load something to choose from.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from assignors.optimal.model.model import Model
from assignors.problem.assignment import NOBODY
from assignors.problem.columns import (
    Ints,
    Longs,
    numbered,
)
from assignors.solver import (
    Arcs,
    concat_arcs,
    min_cost_flow,
)

Racks: TypeAlias = Literal["all", "paid", "free", "none"]
DISTINCT = 32  # weights told apart as they are, where they are below SMALL
SMALL = 2**16
STRANGER = 64  # a change of the kind of owner, in places off a class's even spread
DIGITS = 4  # binary ones that are left of more weights
MOST_ARCS = 300_000  # beyond it classes are told apart by less


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionClasses:
    """Interchangeable partitions."""

    of: Longs  # by taken partition: its class
    sample: Longs  # by class: one of its partitions
    weight: Longs  # by class: what one of them costs across racks at least, in `unit`s
    unit: float
    holding: Longs  # by taken partition: the holding that it is of, -1 none
    class_held: Longs  # by holding: of which class
    holder: Longs  # by holding: whose, a kind of members
    size: Longs  # by holding
    free: Longs  # by class: how many nobody holds


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFlow:
    """What goes where."""

    left: Longs  # by holding: how many leave their kind of owner
    klass: Longs  # by way: of which class,
    kind: Longs  # to which kind of members,
    amount: Longs  # how many of those that nobody holds or that leave


def classes(terms: Model, held: Ints) -> PartitionClasses:
    """Class the partitions that somebody may have; less finely where that would be too many classes."""
    there = np.flatnonzero(terms.taken)
    weight, unit = _steps(terms.weight[there])
    base = numbered(terms.reader_set[there] * len(terms.far) + terms.rackset[there])
    of = numbered(base * (int(weight.max(initial=0)) + 1) + weight)
    if (int(of.max(initial=-1)) + 1) * len(terms.signature) > MOST_ARCS:
        of = base
    count = int(of.max(initial=-1)) + 1
    sample = np.zeros(count, dtype=np.int64)
    sample[of[::-1]] = there[::-1]
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, of, weight)
    owned = np.flatnonzero(held[there] >= 0)
    kinds = len(terms.signature)
    pair, number = np.unique(
        of[owned] * kinds + terms.kind[held[there[owned]]], return_inverse=True
    )
    holding = np.full(len(there), -1, dtype=np.int64)
    holding[owned] = number.ravel()
    return PartitionClasses(
        of=of,
        sample=sample,
        weight=least,
        unit=unit,
        holding=holding,
        class_held=pair // max(kinds, 1),
        holder=pair % max(kinds, 1),
        size=np.bincount(holding[owned], minlength=len(pair)),
        free=np.bincount(of[holding < 0], minlength=count),
    )


def _steps(weight: Longs) -> tuple[Longs, float]:
    """Weights as they are while they are few, else rounded down, in small whole numbers; and what 1 of these is worth."""
    top = int(weight.max(initial=0))
    if int(weight.min(initial=top)) == top:
        return np.minimum(weight, 1), float(top)
    if top < SMALL and len(np.unique(weight)) <= DISTINCT:
        return weight, 1.0
    unit = max(top / SMALL, 1.0)
    small = (weight / unit).astype(np.int64)
    tail = np.maximum(np.frexp(small.astype(np.float64))[1] - DIGITS, 0)
    # What is lighter than a unit still counts a little: else it would cross for nothing.
    return np.where(weight > 0, np.maximum(small >> tail << tail, 1), 0), unit


def crossing_bound(terms: Model) -> int:
    """The least weight that crosses racks in any plan with these counts, whoever owns what."""
    nobody = np.full(len(terms.reader_set), NOBODY, dtype=np.int32)
    classed = classes(terms, nobody)
    sent = shipped(terms, classed, "all")
    away = terms.far[terms.rackset[classed.sample[sent.klass]], terms.rack[sent.kind]]
    least = float((sent.amount * away * classed.weight[sent.klass]).sum())
    if classed.unit == round(classed.unit) and classed.unit * SMALL > float(
        terms.weight.max(initial=0)
    ):
        return round(least * classed.unit)  # weights as they are
    light = int(np.count_nonzero(terms.weight[terms.taken] < classed.unit))
    return max(int((least - light) * classed.unit * (1 - 1e-12)), 0)


def shipped(terms: Model, classed: PartitionClasses, racks: Racks) -> ClassFlow:
    """How many of each class go to which kind, and how many of each holding leave for that."""
    count, holdings = len(classed.sample), len(classed.size)
    klass, kind = np.nonzero(terms.allowed[terms.reader_set[classed.sample]])
    big = (STRANGER + 1) * (len(classed.of) + 1)
    price = classed.weight * (big if racks != "none" else 0)
    cost = np.where(
        terms.far[terms.rackset[classed.sample[klass]], terms.rack[kind]], price[klass], 0
    )
    away = terms.far[terms.rackset[classed.sample[classed.class_held]], terms.rack[classed.holder]]
    stay = np.where(away & (racks != "free"), price[classed.class_held], 0)
    share = _shares(terms, classed, klass, kind, cost)
    whole = classed.free + np.bincount(
        classed.class_held, weights=classed.size, minlength=count
    ).astype(np.int64)
    own = count + np.arange(holdings)
    first = count + holdings
    leave = np.full(holdings, STRANGER)
    ways = concat_arcs(
        Arcs(own, first + classed.holder, classed.size, stay),
        Arcs(own, classed.class_held, classed.size, leave),
        Arcs(klass, first + kind, share, cost),
        Arcs(klass, first + kind, whole[klass] - share, cost + 1),
    )
    ends, demand = _ends(terms, first)
    supply = np.concatenate([classed.free, classed.size, -demand])
    sent = min_cost_flow(concat_arcs(ways, ends), supply)
    if sent is None:
        raise RuntimeError("no flow meets the counts, which were made to be met")
    _, left, near, more = np.split(
        sent[: len(ways.tail)], np.cumsum([holdings, holdings, len(klass)])
    )
    used = np.flatnonzero(near + more)
    return ClassFlow(left=left, klass=klass[used], kind=kind[used], amount=(near + more)[used])


def _shares(
    terms: Model, classed: PartitionClasses, klass: Longs, kind: Longs, cost: Longs
) -> Longs:
    """By arc: its part of what nobody holds of a class, among the kinds that suit the class best."""
    best = np.full(len(classed.sample), np.iinfo(np.int64).max)
    np.minimum.at(best, klass, cost)
    fit = cost == best[klass]
    members = np.bincount(terms.kind, minlength=len(terms.signature))[kind]
    beside = np.bincount(klass, weights=np.where(fit, members, 0), minlength=len(classed.sample))
    part = (classed.free[klass] * members) // np.maximum(beside[klass], 1).astype(np.int64)
    return np.where(fit, part, 0)


def _ends(terms: Model, first: int) -> tuple[Arcs, Longs]:
    """From kinds to the sink: what their members get at least, and the blocks' extras, which kinds share."""
    kinds, blocks = len(terms.signature), len(terms.blocks.level)
    least = np.bincount(terms.kind, weights=terms.least, minlength=kinds).astype(np.int64)
    most = np.bincount(terms.kind, weights=terms.most, minlength=kinds).astype(np.int64)
    block = terms.blocks.of_signature[terms.signature]
    there = block >= 0
    total = np.bincount(terms.blocks.of_audience[terms.reader_set[terms.taken]], minlength=blocks)
    pool = total - np.bincount(block[there], weights=least[there], minlength=blocks).astype(
        np.int64
    )
    node = first + np.arange(kinds)
    extra, sink = first + kinds + np.arange(blocks), first + kinds + blocks
    arcs = concat_arcs(
        Arcs(node, np.full(kinds, sink), least),
        Arcs(node[there], extra[block[there]], (most - least)[there]),
        Arcs(extra, np.full(blocks, sink), pool),
    )
    demand = np.zeros(kinds + blocks + 1, dtype=np.int64)
    demand[-1] = int(total.sum())
    return arcs, demand
