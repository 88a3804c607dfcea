"""What no plan can do better than, at the counts that evenness asks for.

Law: a bound is never above the best plan's value, and says what it rests on. None of them needs a plan.
"""

from dataclasses import dataclass

import numpy as np

from assignors.optimal.model.model import (
    Model,
    summed,
)
from assignors.problem.columns import (
    Floats,
    Longs,
)
from assignors.solver import (
    Arcs,
    concat_arcs,
    max_flow,
)

GROUPED = 16  # how many of the heaviest that must come together are looked at
ROUNDS = 24  # of the search for the readers that are loaded most whatever the plan
FINE = 2**40  # parts that all load is cut into for flows


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that no plan is below, what it rests on, and the partitions that alone make it so."""

    value: float
    kind: str
    partitions: tuple[int, ...] = ()


def load_bound(terms: Model) -> Bound:
    """The least that the longest time to drain can be."""
    found = [Bound(0.0, "nothing to drain")]
    if bool(terms.taken.any()):
        found += [_total(terms), _largest(terms), *_together(terms), *_slowest(terms)]
    return max(found, key=lambda bound: bound.value)


def _total(terms: Model) -> Bound:
    """Load over capacity, of all or of the readers that have the most of it."""
    owned = terms.taken
    kinds = len(terms.signature)
    work = summed(terms.reader_set[owned], terms.load[owned], len(terms.allowed))
    capacity = summed(terms.kind, terms.capacity, kinds)
    loaded = np.flatnonzero(work > 0)
    if not len(loaded):
        return Bound(0.0, "nothing to drain")
    rows, which = np.unique(terms.allowed[loaded], axis=0, return_inverse=True)
    work = summed(which.ravel(), work[loaded], len(rows))
    everybody = float(work.sum() / capacity[rows.any(axis=0)].sum())
    best = everybody
    for row, theirs in zip(rows, work.tolist(), strict=True):
        best = max(best, theirs / float(capacity[row].sum()))
    if len(rows) > 1:
        best = _tightest(rows, work, capacity, best)
    return Bound(best, "total over members" if best <= everybody else "subset of subscriptions")


def _tightest(rows: np.ndarray, work: Floats, capacity: Floats, level: float) -> float:
    """The largest load over capacity of any set of audiences and all who read one of them, by cuts."""
    reader_set, kind = np.nonzero(rows)
    count, kinds = rows.shape
    scale = FINE / float(work.sum())
    supply = np.floor(work * scale).astype(np.int64)
    for _ in range(ROUNDS):
        room = np.ceil(capacity * (level * scale)).astype(np.int64)
        arcs = concat_arcs(
            Arcs(np.zeros(count, np.int64), 2 + np.arange(count), supply),
            Arcs(2 + reader_set, 2 + count + kind, supply[reader_set]),
            Arcs(2 + count + np.arange(kinds), np.ones(kinds, np.int64), room),
        )
        flow, side = max_flow(arcs, 0, 1)
        short = side[2 : 2 + count]
        if flow >= int(supply.sum()) or not short.any():
            break
        tighter = float(work[short].sum() / capacity[rows[short].any(axis=0)].sum())
        if tighter <= level * (1 + 1e-9):
            break
        level = tighter
    return level


def _largest(terms: Model) -> Bound:
    """The heaviest partition with the lightest company that its owner must have, on the fastest that may have it."""
    owned = np.flatnonzero(terms.taken)
    heaviest = np.full(len(terms.allowed), -1.0)
    np.maximum.at(heaviest, terms.reader_set[owned], terms.load[owned])
    fastest = np.zeros(len(terms.signature))
    np.maximum.at(fastest, terms.kind, terms.capacity)
    fewest = np.full(len(terms.signature), np.iinfo(np.int64).max)
    np.minimum.at(fewest, terms.kind, terms.least)
    light = np.concatenate([[0.0], np.cumsum(np.sort(terms.load[owned]))])
    best = Bound(0.0, "largest partition")
    for reader_set in np.flatnonzero(heaviest >= 0).tolist():
        may = terms.allowed[reader_set]
        company = max(int(fewest[may].min()) - 1, 0)
        value = float((heaviest[reader_set] + light[company]) / fastest[may].max())
        if value > best.value:
            theirs = owned[terms.reader_set[owned] == reader_set]
            top = int(theirs[np.argmax(terms.load[theirs])])
            best = Bound(
                value, "largest partition" + (" and its company" if company else ""), (top,)
            )
    return best


def _together(terms: Model) -> list[Bound]:
    """Of the k n + 1 heaviest partitions of n members somebody has k + 1: at least the lightest of them."""
    found = []
    block_of = terms.blocks.of_audience[terms.reader_set]
    block_of[~terms.taken] = -1
    for number in range(len(terms.blocks.level)):
        members = np.flatnonzero(terms.block == number)
        parts = np.flatnonzero(block_of == number)
        order = (
            parts[np.lexsort((parts, -terms.load[parts]))] if len(parts) > len(members) else parts
        )
        fastest = float(terms.capacity[members].max())
        for k in range(1, GROUPED):
            last = k * len(members)
            if last >= len(order):
                break
            those = order[last - k : last + 1]
            kind = "M-th plus (M+1)-th largest" if k == 1 else f"{k + 1} of the {last + 1} largest"
            value = float(terms.load[those].sum()) / fastest
            found.append(Bound(value, kind, tuple(np.sort(those).tolist())))
    return found


def _slowest(terms: Model) -> list[Bound]:
    """The slowest members of a block have at least so many partitions together: at least as many of its lightest."""
    found = []
    block_of = terms.blocks.of_audience[terms.reader_set]
    block_of[~terms.taken] = -1
    for number in range(len(terms.blocks.level)):
        members = np.flatnonzero(terms.block == number)
        light = np.concatenate([[0.0], np.cumsum(np.sort(terms.load[block_of == number]))])
        order = members[np.argsort(terms.capacity[members], kind="stable")]
        value = light[np.cumsum(terms.least[order])] / np.cumsum(terms.capacity[order])
        found.append(Bound(float(value.max()), "counts of the slowest members"))
    return found


def kept_bound(terms: Model) -> int:
    """The most partitions that can stay where they are at these counts: Σ min(own, q) + min(r, #{own > q}) by block."""
    own = terms.count(terms.held)
    block, inside = terms.block, terms.block >= 0
    extra = np.clip(own - terms.least, 0, terms.most - terms.least)
    blocks = len(terms.blocks.level)
    wish = np.bincount(block[inside], weights=extra[inside], minlength=blocks)
    return int(np.minimum(own, terms.least).sum() + np.minimum(wish, pools(terms)).sum())


def pools(terms: Model) -> Longs:
    """By block: partitions that are left over once every member has its least."""
    blocks, inside = len(terms.blocks.level), terms.block >= 0
    total = np.bincount(terms.blocks.of_audience[terms.reader_set[terms.taken]], minlength=blocks)
    least = np.bincount(terms.block[inside], weights=terms.least[inside], minlength=blocks)
    return total - least.astype(np.int64)


def moves_bound(terms: Model) -> int:
    """The fewest moves of any plan with these counts."""
    return int(np.count_nonzero(terms.before >= 0)) - kept_bound(terms)


def growth_bound(terms: Model, limit: float) -> int:
    """The fewest moves of any plan in which nobody is above a time to drain.

    What nobody holds, and what members hold beyond the limit, is taken up by members that have room for it, the roomiest
    first; to each of these at least one partition comes, which is a move unless nobody held it.
    """
    held = terms.held >= 0
    free = terms.taken & ~held & (terms.load > 0)
    room = limit * terms.capacity - terms.work(terms.held)
    excess = np.maximum(-room, 0.0)
    total = (float(terms.load[free].sum()) + float(excess.sum())) * (1 - 1e-9)
    taken = np.concatenate([[0.0], np.cumsum(-np.sort(-np.maximum(room, 0.0)))])
    growing = int(np.count_nonzero(taken[:-1] < total))
    givers = int(np.count_nonzero(excess > 1e-9 * limit * terms.capacity))
    gone = int(np.count_nonzero((terms.before >= 0) & ~held))
    return gone + max(growing - int(np.count_nonzero(free)), givers)
