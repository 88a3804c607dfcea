"""Loads of a group's members in seconds, and the best that an assignment could reach.

`levelwind.assignors.problem.drain` defines them. All arguments are columns of one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.assignors.problem.drain import (
    Unevenness,
    best_load,
    horizon_seconds,
    load_seconds,
    resolve_capacities,
    sum_by_member,
    unevenness,
)
from levelwind.streaming.rules.skew import LONG_LAG_SECONDS, SkewFigures

if TYPE_CHECKING:
    from levelwind.streaming.rules.event_time import Floats, Int64

RATE_SCALE = 1000
"""Rates are whole numbers of records in so many seconds: a sum of them is the same in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLoads:
    """Loads of a group's members; columns are indexed by member."""

    lag: Floats
    """Records that wait."""
    rate: Floats
    """Records that arrive per second."""
    capacity: Floats
    """Records per second that the member can read."""
    assumed: bool
    """Whether no member's speed is known."""
    horizon: float
    """Seconds of arrivals that count: the group's own time to drain, within its bounds."""
    load: Floats
    """Seconds."""
    uneven: Unevenness
    """The load that is furthest above the level of its rank."""
    best_utilisation: float
    """Largest utilisation that no assignment is below."""

    @classmethod
    def of(
        cls, *, lag: Int64, rate: Int64, owner: Int64, announced: Floats, speed: Floats
    ) -> MemberLoads:
        """The loads of a group.

        Args:
            lag: records that wait, by owned partition.
            rate: records that arrive in `RATE_SCALE` seconds, by owned partition.
            owner: index of the member, by owned partition.
            announced: relative capacity, by member.
            speed: learned records a second, by member; NaN where none is known.
        """
        members = announced.size
        member_lag = sum_by_member(lag, owner, members)
        member_rate = sum_by_member(rate, owner, members) / RATE_SCALE
        backlog, arrivals = float(member_lag.sum()), float(member_rate.sum())
        capacity, assumed = resolve_capacities(
            announced, speed, backlog, arrivals, pace=member_rate, lag=member_lag
        )
        horizon = horizon_seconds(backlog, arrivals, float(capacity.sum()))
        partition_rate = rate / RATE_SCALE
        load = load_seconds(member_lag, member_rate, capacity, horizon)
        return cls(
            lag=member_lag,
            rate=member_rate,
            capacity=capacity,
            assumed=assumed,
            horizon=horizon,
            load=load,
            uneven=unevenness(load, capacity, lag + partition_rate * horizon),
            best_utilisation=best_load(partition_rate, capacity),
        )

    @property
    def lag_is_long(self) -> bool:
        """Whether records wait beyond doubt, however fast the members may be."""
        known = bool((self.rate > 0).any())
        return known and bool((self.lag >= LONG_LAG_SECONDS * self.capacity).any())

    def figures(self, *, waiting: bool) -> SkewFigures:
        """The figures that the rule of skew judges.

        Args:
            waiting: whether records have shown to wait, by their age or by commits.
        """
        return SkewFigures(
            heaviest=self.uneven.load,
            best=self.uneven.level,
            utilisation=float((self.rate / self.capacity).max(initial=0.0)),
            best_utilisation=self.best_utilisation,
            assumed=self.assumed,
            waiting=waiting or self.lag_is_long,
        )
