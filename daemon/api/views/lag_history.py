"""Lag history: the last hour of each group's lag and time to drain, in memory alone. Pure.

Every group has a ring of a fixed number of points, so that the memory is bounded by the number of
groups: 16 bytes a point. Points are taken at fixed times, and a group that began later, or that
could not be measured, has gaps.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

POINTS = 360
"""Points of each group."""
INTERVAL_SECONDS = 10.0
"""Time between two points."""
MOST_GROUPS = 5_000
"""Groups with a history; further ones get none."""

NO_LAG = -1


class LagPoint(NamedTuple):
    """One point of a group's history."""

    lag: int | None
    """Records behind; None if the group could not be measured."""
    drain_seconds: float | None
    """Load of the most loaded member in seconds; None where there is none."""


class _Ring:
    """Two columns of a fixed length, of which the oldest point is overwritten."""

    __slots__ = ("drain", "lag")

    def __init__(self, points: int) -> None:
        self.lag = array("q", [NO_LAG]) * points
        self.drain = array("d", [math.nan]) * points

    def put(self, index: int, point: LagPoint) -> None:
        self.lag[index] = NO_LAG if point.lag is None else point.lag
        self.drain[index] = math.nan if point.drain_seconds is None else point.drain_seconds


class LagHistory:
    """The points of all groups; one thread calls all methods."""

    def __init__(self, points: int = POINTS, most_groups: int = MOST_GROUPS) -> None:
        self._points = points
        self._most_groups = most_groups
        self._rings: dict[str, _Ring] = {}
        self._times = array("q", [0]) * points
        self.taken = 0
        """Points that were ever taken."""

    def add(self, at: int, points: Mapping[str, LagPoint]) -> None:
        """Add one point of each group; a group without one for a whole ring is forgotten.

        Args:
            at: the time, in milliseconds since the epoch.
            points: by group.
        """
        index = self.taken % self._points
        self._times[index] = at
        self.taken += 1
        nothing = LagPoint(None, None)
        for group, ring in list(self._rings.items()):
            ring.put(index, points.get(group, nothing))
            if group not in points and not any(lag != NO_LAG for lag in ring.lag):
                del self._rings[group]
        for group, point in points.items():
            if group not in self._rings and len(self._rings) < self._most_groups:
                self._rings[group] = _Ring(self._points)
                self._rings[group].put(index, point)

    def times(self, last: int | None = None) -> list[int]:
        """Return the times of the last points, the oldest first."""
        return [self._times[index] for index in self._indices(last)]

    def series(
        self, group: str, last: int | None = None
    ) -> tuple[list[int | None], list[float | None]]:
        """Return lag and seconds to drain at `times(last)`; None where nothing was measured."""
        ring = self._rings.get(group)
        indices = self._indices(last)
        if ring is None:
            return [None] * len(indices), [None] * len(indices)
        return (
            [None if ring.lag[i] == NO_LAG else ring.lag[i] for i in indices],
            [None if math.isnan(ring.drain[i]) else ring.drain[i] for i in indices],
        )

    def _indices(self, last: int | None) -> Sequence[int]:
        count = min(self.taken, self._points)
        count = count if last is None else min(count, last)
        return [(self.taken - count + number) % self._points for number in range(count)]
