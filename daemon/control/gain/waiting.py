"""Waiting that a plan saves, and waiting that its hand-over costs, in record-seconds. Pure.

The fluid model: a member's lag grows by its arrivals and falls by what the member reads, at rates
that stay as they are. A record-second is one record that waits for one second, so waiting is the
area under the lag, within a bounded horizon. Under the present owners and under the plan each
member is one queue; a partition that moves is read by nobody while it is handed over, and then adds
to the queue of its next owner.

A member is counted to read less than what it can: records do not arrive evenly, so a member that
needs more of its capacity for its arrivals lags now and then, although the model would let it keep
up. So a plan can be worth its moves before any lag has built up. What the members keep in reserve
is the same share for all, and at most half of what the group as a whole has to spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.drain import TARGET_UTILISATION, horizon_seconds, sum_by_member

if TYPE_CHECKING:
    from levelwind.assignors.problem.columns import Floats, Ints, Longs

SHORTEST_HORIZON_SECONDS = 60.0
"""Shortest horizon: rates are measured over the last minute, and taken to last for another."""

LONGEST_HORIZON_SECONDS = 600.0
"""Longest horizon: what arrives later is not foreseen."""

RETURN_ON_COST = 2.0
"""Times its cost that a plan must save: the hysteresis that keeps plans from following noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFigures:
    """Waiting with and without a plan, in record-seconds within the horizon."""

    present: float
    """Waiting under the present owners."""
    planned: float
    """Waiting under the plan, as if partitions changed their owners at once."""
    cost: float
    """Waiting that the hand-over adds. Invariant: never negative."""
    horizon: float
    """Seconds that count."""
    pause: float
    """Seconds for which nobody reads a partition that moves."""

    @property
    def saved(self) -> float:
        """Waiting that the plan saves, its hand-over left out; negative for a worse plan."""
        return self.present - self.planned

    @property
    def worthwhile(self) -> bool:
        """Whether the plan saves clearly more waiting than its hand-over costs."""
        return self.saved > 0 and self.saved >= RETURN_ON_COST * self.cost

    @property
    def share(self) -> float:
        """Share of the present waiting that the plan saves after the cost of its hand-over."""
        return (self.saved - self.cost) / self.present if self.present > 0 else 0.0

    def as_json(self) -> dict[str, float]:
        """Figures by name, in record-seconds and seconds."""
        return {
            "present": round(self.present, 1),
            "planned": round(self.planned, 1),
            "cost": round(self.cost, 1),
            "horizon": round(self.horizon, 1),
            "pause": round(self.pause, 3),
        }


def usable_share(arrivals: float, capacity: float) -> float:
    """Return the share of their capacity that members are counted to use.

    Args:
        arrivals: records that arrive per second, of all partitions together.
        capacity: records per second that all members together can read.
    """
    utilisation = arrivals / capacity if capacity else 1.0
    return min(max(TARGET_UTILISATION, (1 + utilisation) / 2), 1.0)


def waiting_figures(
    lag: Floats | Longs,
    rate: Floats,
    present: Ints | Longs,
    planned: Ints | Longs,
    capacity: Floats,
    *,
    pause: float,
) -> WaitingFigures:
    """Compare the waiting under the present owners with the waiting under a plan.

    Args:
        lag: records behind, by partition.
        rate: records that arrive per second, by partition.
        present: index of the member that owns the partition now; -1 where nobody does.
        planned: index of the member that the plan gives the partition to; -1 for nobody.
        capacity: records per second of each member.
        pause: seconds for which nobody reads a partition that moves.
    """
    # Partitions without an owner are those of a further member that reads nothing.
    share = usable_share(float(rate.sum()), float(capacity.sum()))
    usable = np.append(capacity * share, 0.0)
    nobody = len(capacity)
    now = np.where(present < 0, nobody, present)
    then = np.where(planned < 0, nobody, planned)
    read = now < nobody
    horizon = horizon_seconds(
        float(lag[read].sum()),
        float(rate[read].sum()),
        float(usable.sum()),
        shortest=SHORTEST_HORIZON_SECONDS,
        longest=LONGEST_HORIZON_SECONDS,
    )
    pause = min(pause, horizon)

    def queues(owner: Longs, share: Floats | Longs) -> Floats:
        return sum_by_member(share, owner, len(usable))

    growth = queues(then, rate) - usable
    planned_waiting, _ = _drained(queues(then, lag), growth, horizon)
    moving = now != then
    kept_rate = np.where(moving, 0.0, rate)
    kept_waiting, left = _drained(
        queues(then, np.where(moving, 0, lag)), queues(then, kept_rate) - usable, pause
    )
    moved_lag = queues(then, np.where(moving, lag, 0))
    moved_rate = queues(then, rate - kept_rate)
    paused_waiting, arrived = _drained(moved_lag, moved_rate, pause)
    later_waiting, _ = _drained(left + arrived, growth, horizon - pause)
    with_handover = float((kept_waiting + paused_waiting + later_waiting).sum())
    added = with_handover - float(planned_waiting.sum())
    return WaitingFigures(
        present=float(_drained(queues(now, lag), queues(now, rate) - usable, horizon)[0].sum()),
        planned=float(planned_waiting.sum()),
        cost=max(added, 0.0) if moving.any() else 0.0,
        horizon=horizon,
        pause=pause,
    )


def _drained(lag: Floats, growth: Floats, seconds: float) -> tuple[Floats, Floats]:
    """Waiting of each queue within some seconds, and its lag after them.

    Args:
        lag: records in the queue at the beginning.
        growth: records by which the queue grows per second; negative while it drains.
        seconds: length of the time that counts.
    """
    until = np.full(len(lag), seconds, np.float64)
    np.divide(lag, -growth, out=until, where=growth < 0)
    until = np.minimum(until, seconds)
    return lag * until + growth * until**2 / 2, np.maximum(lag + growth * seconds, 0.0)
