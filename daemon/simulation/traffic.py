"""Traffic: how consumers read, and the records that arrived recently.

Each consumer shares its speed evenly among its partitions with records left.
Guarantees: max-min fairness in whole records. A partition that cannot use its even share is read to
its end, and the others share the rest; an indivisible rest goes, one record each, to the partitions
with the fewest records left. No consumer reads more than its budget, nor more than there is, and a
budget is left over only if nothing is left to read.
Ties: partitions by number.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Protocol

import numpy as np

from levelwind.streaming.rules.arrival_rate import arrival_rate
from levelwind.streaming.topic.end_history import EndOffsetHistory

if TYPE_CHECKING:
    from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs

SAMPLE_MS = 1_000
"""Time between two samples of the ends, the observer's default; a tick where that is longer."""


class RecentArrivals:
    """End offsets of the partitions at the last ticks, counted from the start of the world.

    A backlog at the start is older than every record that arrives.
    """

    def __init__(self, partitions: int, tick: float, longest: float) -> None:
        self._tick = tick
        self._ends = np.zeros((ceil(longest / tick) + 1, partitions), np.int64)
        self.ticks = 0
        self._samples = EndOffsetHistory.empty().with_sample(0, self._ends[0])
        self._rates, self._rated = np.zeros(partitions), self._samples

    def arrive(self, records: Longs) -> None:
        """Add the records (P) of one tick."""
        last = self._ends[self.ticks % len(self._ends)]
        self.ticks += 1
        ends = self._ends[self.ticks % len(self._ends)] = last + records
        at = round(self.ticks * self._tick * 1000)
        if at - self._samples.at[-1] >= SAMPLE_MS:
            self._samples = self._samples.with_sample(at, ends)

    def younger(self, seconds: float) -> Longs | None:
        """Records that arrived in the last `seconds` (P); None if the start is more recent."""
        back = ceil(seconds / self._tick)
        if back > self.ticks:
            return None
        now = self._ends[self.ticks % len(self._ends)]
        return np.asarray(now - self._ends[(self.ticks - back) % len(self._ends)])

    def rates(self) -> Floats:
        """Records that usually arrive per second (P), by the rule of the pipeline."""
        if self._rated is not self._samples:
            rates = arrival_rate(self._samples.at, self._samples.end)
            self._rates, self._rated = np.nan_to_num(rates), self._samples
        return self._rates


class ReadOrder(Protocol):
    """How consumers divide their speed among their partitions."""

    def __call__(self, lag: Longs, owner: Ints, budget: Longs, readable: Bools, /) -> Longs:
        """Records read in one tick, by partition; the arguments are those of `read`."""
        ...


def read(lag: Longs, owner: Ints, budget: Longs, readable: Bools) -> Longs:
    """Records read in one tick, by partition (P).

    Args:
        lag: P: records left.
        owner: P: consumer that reads a partition; -1 for nobody.
        budget: M: records that each consumer can read in this tick.
        readable: P: whether the partition can be read now.
    """
    ready = np.flatnonzero(readable & (owner >= 0) & (lag > 0))
    done = np.zeros_like(lag)
    reader, left = owner[ready], lag[ready]
    wanted = _sums(reader, left, len(budget))
    done[ready] = left
    short = (wanted > budget)[reader]
    if short.any():
        done[ready[short]] = _shares(left[short], reader[short], budget)
    return done


def _shares(lag: Longs, owner: Ints, budget: Longs) -> Longs:
    """Records read of the partitions of consumers that cannot read all their records left."""
    order = np.lexsort((lag, owner))
    reader, left = owner[order], lag[order]
    begins = np.flatnonzero(np.diff(reader, prepend=-1))
    sizes = np.diff(begins, append=len(reader))
    rank = np.arange(len(reader)) - np.repeat(begins, sizes)
    before = np.cumsum(left) - left
    before -= np.repeat(before[begins], sizes)
    rest = budget[reader] - before
    others = np.repeat(sizes, sizes) - rank
    # From the first partition on that has more than an even share of what the smaller ones leave,
    # every partition gets that share.
    above = np.flatnonzero(left * others > rest)
    first = above[np.searchsorted(above, begins)]
    level, odd = np.divmod(rest[first], others[first])
    shared = np.repeat(level, sizes) + (rank < np.repeat(rank[first] + odd, sizes))
    shares = np.empty_like(lag)
    shares[order] = np.where(rank < np.repeat(rank[first], sizes), left, shared)
    return shares


def _sums(readers: Ints, figures: Longs, size: int) -> Longs:
    """Sums of whole numbers by reader; exact to 2**53, far beyond any day's records."""
    return np.bincount(readers, weights=figures, minlength=size).astype(np.int64)
