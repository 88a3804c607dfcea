"""How many partitions of each class go to each kind of member: locality at fixed counts, solved exactly.

Law: partitions that the same members may have, with replicas in the same racks, of about the same traffic and with owners of
the same kind are interchangeable here, so a min-cost flow over classes and kinds is exact whatever their numbers. Least
weight across racks first, then fewest partitions that change their kind of owner. Where nobody owns anything a class is
spread over the kinds that suit it equally, which leaves load something to choose from.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from assignors.assignment import NOBODY
from assignors.columns import Ints, Longs, numbered
from assignors.optimal.flows import Arcs, cheapest, joined
from assignors.optimal.terms import Terms

Racks: TypeAlias = Literal["all", "paid", "free", "none"]
DISTINCT = 32  # weights told apart as they are, where they are below SMALL
SMALL = 2**16
STRANGER = 64  # a change of the kind of owner, in places off a class's even spread
DIGITS = 4  # binary ones that are left of more weights
MOST_ARCS = 300_000  # beyond it classes are told apart by less


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Interchangeable partitions."""

    of: Longs  # by taken partition: its class
    sample: Longs  # by class: one of its partitions
    size: Longs  # by class
    weight: Longs  # by class: what one of them costs across racks at least, in `unit`s
    unit: float


def classes(terms: Terms, held: Ints) -> Classes:
    """Class the partitions that somebody may have; less finely where that would be too many classes."""
    there = np.flatnonzero(terms.taken)
    base = terms.audience[there] * len(terms.far) + terms.rackset[there]
    owned = np.where(held[there] >= 0, terms.kind[held[there]] + 1, 0) if len(terms.kind) else there * 0
    weight, unit = _steps(terms.weight[there])
    by_weight = numbered(weight)
    for parts in ((by_weight, owned), (owned,), ()):
        key = numbered(base)
        for part in parts:
            key = numbered(key * (int(part.max(initial=0)) + 1) + part)
        if not parts or (int(key.max(initial=-1)) + 1) * len(terms.signature) <= MOST_ARCS:
            break
    count = int(key.max(initial=-1)) + 1
    sample = np.zeros(count, dtype=np.int64)
    sample[key[::-1]] = there[::-1]
    size = np.bincount(key, minlength=count)
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, key, weight)
    return Classes(of=key, sample=sample, size=size, weight=least, unit=unit)


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


def crossing_bound(terms: Terms) -> int:
    """The least weight that crosses racks in any plan with these counts, whoever owns what."""
    nobody = np.full(len(terms.audience), NOBODY, dtype=np.int32)
    classed = classes(terms, nobody)
    flow = shipped(terms, classed, nobody, "all")
    away = terms.far[terms.rackset[classed.sample]][:, terms.rack]
    least = float((flow * away).sum(axis=1) @ classed.weight)
    light = int(np.count_nonzero(terms.weight[terms.taken] < classed.unit)) if classed.unit > 1 else 0
    return max(int((least - light) * classed.unit * (1 - 1e-12)), 0)


def shipped(terms: Terms, classed: Classes, held: Ints, racks: Racks) -> Longs:
    """By class and kind of member: how many go there."""
    count, kinds = len(classed.size), len(terms.signature)
    flow = np.zeros((count, kinds), dtype=np.int64)
    if kinds == 1:
        flow[:, 0] = classed.size
        return flow
    can = terms.allowed[terms.audience[classed.sample]]
    klass, kind = np.nonzero(can)
    big = (STRANGER + 1) * (int(classed.size.sum()) + 1)
    owner = held[classed.sample[klass]]
    away = terms.far[terms.rackset[classed.sample[klass]], terms.rack[kind]]
    if racks in {"free", "none"}:
        away &= (owner < 0) & (racks == "free")
    stranger = (owner >= 0) & (terms.kind[owner] != kind)
    cost = np.where(away, classed.weight[klass], 0) * big + stranger * STRANGER
    share = _shares(terms, classed, klass, kind, cost, owner)
    ways = joined(
        Arcs(klass, count + kind, share, cost),
        Arcs(klass, count + kind, classed.size[klass] - share, cost + 1),
    )
    ends, demand = _ends(terms, count)
    supply = np.concatenate([classed.size, np.zeros(len(demand), dtype=np.int64)])
    supply[count:] -= demand
    sent = cheapest(joined(ways, ends), supply)
    flow[klass, kind] = sent[: len(klass)] + sent[len(klass) : 2 * len(klass)]
    return flow


def _shares(terms: Terms, classed: Classes, klass: Longs, kind: Longs, cost: Longs, owner: Ints) -> Longs:
    """By arc: its part of a class that nobody owns, among the kinds that suit the class best; a class with owners whole."""
    best = np.full(len(classed.size), np.iinfo(np.int64).max)
    np.minimum.at(best, klass, cost)
    fit = cost == best[klass]
    members = np.bincount(terms.kind, minlength=len(terms.signature))[kind]
    beside = np.bincount(klass, weights=np.where(fit, members, 0), minlength=len(classed.size))
    part = (classed.size[klass] * members) // np.maximum(beside[klass], 1).astype(np.int64)
    return np.where(owner >= 0, classed.size[klass], np.where(fit, part, 0))


def _ends(terms: Terms, first: int) -> tuple[Arcs, Longs]:
    """From kinds to the sink: what their members get at least, and the blocks' extras, which kinds share."""
    kinds, blocks = len(terms.signature), len(terms.blocks.level)
    least = np.bincount(terms.kind, weights=terms.least, minlength=kinds).astype(np.int64)
    most = np.bincount(terms.kind, weights=terms.most, minlength=kinds).astype(np.int64)
    block = terms.blocks.of_signature[terms.signature]
    there = block >= 0
    total = np.bincount(terms.blocks.of_audience[terms.audience[terms.taken]], minlength=blocks)
    pool = total - np.bincount(block[there], weights=least[there], minlength=blocks).astype(np.int64)
    node = first + np.arange(kinds)
    extra, sink = first + kinds + np.arange(blocks), first + kinds + blocks
    arcs = joined(
        Arcs(node, np.full(kinds, sink), least),
        Arcs(node[there], extra[block[there]], (most - least)[there]),
        Arcs(extra, np.full(blocks, sink), pool),
    )
    demand = np.zeros(kinds + blocks + 1, dtype=np.int64)
    demand[-1] = int(total.sum())
    return arcs, demand
