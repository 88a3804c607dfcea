"""What arrived lately: how many records of each partition are younger than so many seconds."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignors.columns import Floats, Longs

MINUTE = 60.0
"""Seconds over which the product reckons rates."""


class Recent:
    """The ends of the partitions at the last ticks, all counted from the start; nothing is younger than a backlog there."""

    def __init__(self, partitions: int, tick: float, longest: float) -> None:
        self._tick = tick
        self._ends = np.zeros((max(ceil(longest / tick), ceil(MINUTE / tick)) + 1, partitions), np.int64)
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
