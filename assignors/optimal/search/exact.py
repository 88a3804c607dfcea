"""Small groups solved exactly: every plan is compared, by dynamic programming over sets of partitions.

Law: members are gone through in turn; of each set of partitions that the first of them can have, only the best way counts.
First the largest time to drain alone, then, within its tolerance, weight across racks and after it moves.
Ties: the first set in number for the last member.
Cost: sets times what a member can take; only where that is at most `MOST`.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from assignors.optimal.model.model import Model
from assignors.problem.assignment import NOBODY
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
)

WIDEST = 13  # partitions of a block
MOST = 1_500_000  # sets times shares, of a block
Figures = TypeVar("Figures", Longs, Floats)
INFINITE = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class Exact:
    """The best plan, and what the best values are whoever owned what."""

    owner: Ints
    drain: float
    crossing: int


@dataclass(frozen=True, slots=True)
class _Block:
    """N partitions, and n members; a set of partitions is a number of N bits."""

    parts: Longs
    members: Longs
    shares: list[Longs]  # by member: the sets that it may have, counts and subscriptions considered
    open: list[Bools]  # by member and set: whether they can be what the members up to it have

    def unions(self, place: int, reached: Longs, shares: Longs) -> tuple[Longs, Longs, Longs]:
        """The sets that a member's shares make of those reached before it: which set, which share, what union."""
        if place == len(self.members) - 1:
            rest = np.bitwise_xor(
                len(self.open[place]) - 1, reached
            )  # the last one gets what is left
            column = np.minimum(np.searchsorted(shares, rest), max(len(shares) - 1, 0))
            row = np.flatnonzero(shares[column] == rest) if len(shares) else rest[:0]
            return row, column[row], reached[row] | rest[row]
        row, column = np.nonzero((reached[:, None] & shares[None, :]) == 0)
        union = reached[row] | shares[column]
        there = self.open[place][union]
        return row[there], column[there], union[there]


def exact(terms: Model) -> Exact | None:
    """The best plan of a small group; None: it is too large."""
    blocks = []
    for number in range(len(terms.blocks.level)):
        block = _block(terms, number)
        if block is None:
            return None
        blocks.append(block)
    load = max((_lightest(terms, block) for block in blocks), default=0.0)
    limit = terms.wishes.within(load)
    owner = np.full(len(terms.reader_set), NOBODY, dtype=np.int32)
    for block in blocks:
        _cheapest(terms, block, limit, owner)
    return Exact(owner, load, terms.crossed(owner))


def _block(terms: Model, number: int) -> _Block | None:
    taken = np.flatnonzero(terms.taken)
    parts = taken[terms.blocks.of_audience[terms.reader_set[taken]] == number]
    if len(parts) > WIDEST:
        return None
    members = np.flatnonzero(terms.block == number)
    if len(members) * 2 ** len(parts) > MOST:
        return None
    size = np.bitwise_count(np.arange(2 ** len(parts), dtype=np.int64)).astype(np.int64)
    least, most = terms.least[members], terms.most[members]
    # So many the members up to each one can have when the others get theirs.
    fewest = np.maximum(np.cumsum(least), len(parts) - (most.sum() - np.cumsum(most)))
    largest = np.minimum(np.cumsum(most), len(parts) - (least.sum() - np.cumsum(least)))
    by_size = np.concatenate([[0], np.cumsum(np.bincount(size))])
    states = [1, *(by_size[largest + 1] - by_size[fewest])[:-1].tolist()]
    shares, reached, cost = [], [], 0
    for place, member in enumerate(members.tolist()):
        theirs = np.flatnonzero((size >= least[place]) & (size <= most[place]))
        foreign = ~terms.may(parts, np.full(1, member))
        barred = int((foreign * 2 ** np.arange(len(parts))).sum())
        shares.append(theirs[(theirs & barred) == 0])
        reached.append((size >= fewest[place]) & (size <= largest[place]))
        cost += states[place] * (len(shares[-1]) if place < len(members) - 1 else 1)
    return _Block(parts, members, shares, reached) if cost <= MOST else None


def _sums(values: Figures) -> Figures:
    """By set: the sum over its partitions."""
    sums: Figures = values[:0].sum(keepdims=True)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def _lightest(terms: Model, block: _Block) -> float:
    """The least that the longest time to drain of a block's members can be."""
    load = _sums(terms.load[block.parts])
    reached = np.zeros(1, dtype=np.int64)
    value = np.zeros(1)
    for place, shares in enumerate(block.shares):
        row, column, union = block.unions(place, reached, shares)
        peak = np.maximum(value[row], load[shares[column]] / terms.capacity[block.members[place]])
        best = np.full(len(load), np.inf)
        np.minimum.at(best, union, peak)
        reached = np.flatnonzero(best < np.inf)
        value = best[reached]
    return float(value[-1])


def _cheapest(terms: Model, block: _Block, limit: float, owner: Ints) -> None:
    """The plan of a block within the limit of load: least across racks, then fewest moves, then least backlog moved."""
    parts = block.parts
    load = _sums(terms.load[parts])
    costs = [_sums(_cost(terms, parts, member)) for member in block.members.tolist()]
    shares = [
        theirs[load[theirs] / terms.capacity[member] <= limit]
        for member, theirs in zip(block.members.tolist(), block.shares, strict=True)
    ]
    best = np.full(len(load), INFINITE)
    best[0] = 0
    stages = [best]
    for place, (cost, theirs) in enumerate(zip(costs, shares, strict=True)):
        reached = np.flatnonzero(best < INFINITE)
        row, column, union = block.unions(place, reached, theirs)
        stage = np.full(len(load), INFINITE)
        np.minimum.at(stage, union, best[reached[row]] + cost[theirs[column]])
        best = stage
        stages.append(best)
    left = len(load) - 1
    for index in range(len(costs) - 1, -1, -1):
        theirs = shares[index][(shares[index] & ~left) == 0]
        through = stages[index][left ^ theirs] + costs[index][theirs]
        share = int(theirs[np.argmin(through)])
        owner[parts[np.flatnonzero((share >> np.arange(len(parts))) & 1)]] = block.members[index]
        left ^= share


def _cost(terms: Model, parts: Longs, member: int) -> Longs:
    """What each partition costs with a member: weight across racks, then a move, then the rank of the backlog moved."""
    rank = np.empty(len(parts), dtype=np.int64)
    rank[np.lexsort((parts, terms.load[parts]))] = np.arange(len(parts))
    ranks = len(parts) * len(parts)
    held = terms.held[parts]
    moved = (held >= 0) & (held != member)
    crossing = terms.crossing(parts, np.full(1, member))
    return np.asarray(crossing * (ranks * (len(parts) + 1)) + moved * (ranks + rank))
