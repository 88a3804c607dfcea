"""How consumers read, and what arrived lately.

Each consumer shares its speed evenly among those of its partitions that have records left.
Law: max-min fairness in whole records. Who cannot use its even share takes what it has, and the others share the rest; what
does not divide goes, a record each, to those with the least left to read. Nobody reads more than its budget, nor more than
is there, and a budget is left over only where nothing is left to read.
Ties: partitions by number.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignors.problem.columns import (
        Bools,
        Floats,
        Ints,
        Longs,
    )

MINUTE = 60.0
"""Seconds over which the product reckons rates."""


class Recent:
    """The ends of the partitions at the last ticks, all counted from the start; nothing is younger than a backlog there."""

    def __init__(self, partitions: int, tick: float, longest: float) -> None:
        self._tick = tick
        self._ends = np.zeros(
            (max(ceil(longest / tick), ceil(MINUTE / tick)) + 1, partitions), np.int64
        )
        self.ticks = 0

    def arrive(self, records: Longs) -> None:
        """One more tick."""
        last = self._ends[self.ticks % len(self._ends)]
        self.ticks += 1
        self._ends[self.ticks % len(self._ends)] = last + records

    def younger(self, seconds: float) -> Longs | None:
        """P: the records that arrived within so many seconds; None: it is not that long since the start."""
        back = ceil(seconds / self._tick)
        if back > self.ticks:
            return None
        now = self._ends[self.ticks % len(self._ends)]
        return np.asarray(now - self._ends[(self.ticks - back) % len(self._ends)])

    def rates(self) -> Floats:
        """P: records a second over the last minute, or since the start."""
        back = min(ceil(MINUTE / self._tick), self.ticks)
        now = self._ends[self.ticks % len(self._ends)]
        then = self._ends[(self.ticks - back) % len(self._ends)]
        return np.asarray((now - then) / max(back * self._tick, self._tick))


def read(lag: Longs, owner: Ints, budget: Longs, readable: Bools) -> Longs:
    """P: what is read in one tick.

    Args:
        lag: P: the records that are there.
        owner: P: who reads a partition, -1 nobody.
        budget: M: how many records each consumer can read in this tick.
        readable: P: whether it can be read now at all.
    """
    there = np.flatnonzero(readable & (owner >= 0) & (lag > 0))
    done = np.zeros_like(lag)
    who, left = owner[there], lag[there]
    wanted = _sums(who, left, len(budget))
    done[there] = left
    short = (wanted > budget)[who]
    if short.any():
        done[there[short]] = _shares(left[short], who[short], budget)
    return done


def _shares(lag: Longs, owner: Ints, budget: Longs) -> Longs:
    """The shares of partitions whose owners cannot read all of them."""
    order = np.lexsort((lag, owner))
    who, left = owner[order], lag[order]
    begins = np.flatnonzero(np.diff(who, prepend=-1))
    sizes = np.diff(begins, append=len(who))
    place = np.arange(len(who)) - np.repeat(begins, sizes)
    before = np.cumsum(left) - left
    before -= np.repeat(before[begins], sizes)
    rest = budget[who] - before
    others = np.repeat(sizes, sizes) - place
    # From the first partition on that has more than its even share of what the smaller ones leave, all get that share.
    above = np.flatnonzero(left * others > rest)
    first = above[np.searchsorted(above, begins)]
    level, odd = np.divmod(rest[first], others[first])
    shared = np.repeat(level, sizes) + (place < np.repeat(place[first] + odd, sizes))
    shares = np.empty_like(lag)
    shares[order] = np.where(place < np.repeat(place[first], sizes), left, shared)
    return shares


def _sums(places: Ints, figures: Longs, size: int) -> Longs:
    """Sums of whole numbers by place; exact far beyond any day's records."""
    return np.bincount(places, weights=figures, minlength=size).astype(np.int64)
