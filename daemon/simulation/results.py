"""Results of a simulation: figures by strategy, as a table and as JSON.

Guarantees: less is better in every figure but the processed records. Everything but `timing` is the
same in every run of the same input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.comparison import aligned, least
from levelwind.daemon.console import bytes_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.problem.columns import Longs
    from levelwind.daemon.simulation.strategy.strategy_run import StrategyRun


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StrategyFigures:
    """Figures of one strategy."""

    strategy: str
    above: float
    """Share of the partitions' time in which a record waited longer than the target."""
    group_above: float
    """Share of time in which a record of any partition waited longer than the target."""
    wait: float
    """Mean seconds that a record waited."""
    lag: Mapping[str, float]
    """Lag of the group in records: p50, p99, max."""
    drain: Mapping[str, float]
    """Time to drain of the most loaded consumer in seconds: p50, p99, max."""
    cross_bytes: float
    """Bytes read from another rack."""
    cross_share: float | None
    """Share of the bytes with known racks that were read from another rack."""
    moves: int
    """Partitions that changed owner."""
    plans: Mapping[str, int]
    """Plans after the first by cause."""
    suppressed: int
    """Number of times that an active trigger was suppressed: by a cooldown, for too little gain, or
    for exceeding its budget."""
    arrived: int
    """Records that arrived, including the backlog at the start."""
    processed: int
    """Records read."""
    left: int
    """Records left at the end; `arrived` is the sum of `processed` and `left`."""
    plan_seconds: Mapping[str, float]
    """Seconds that a plan took to compute: mean, max."""
    course: Longs
    """Lag of the group after each tick."""

    def as_json(self) -> dict[str, object]:
        """Fields by name, without the lag of each tick."""
        return {
            "strategy": self.strategy,
            "above_target": self.above,
            "group_above_target": self.group_above,
            "mean_wait_seconds": self.wait,
            "lag": dict(self.lag),
            "drain_seconds": dict(self.drain),
            "cross_rack_bytes": self.cross_bytes,
            "cross_rack_share": self.cross_share,
            "moves": self.moves,
            "plans": dict(self.plans),
            "suppressed": self.suppressed,
            "arrived": self.arrived,
            "processed": self.processed,
            "left": self.left,
            "timing": {"plan_seconds": dict(self.plan_seconds)},
        }


def figures(strategy: str, run: StrategyRun, arrived: int, tick: float) -> StrategyFigures:
    """Compute the figures of a run.

    Raises:
        RuntimeError: records were lost or invented, which is a bug.
    """
    tally, left = run.tally, int(run.lag.sum())
    if arrived != tally.processed + left:
        raise RuntimeError(
            f"{strategy}: {arrived} records arrived, {tally.processed} were read, {left} are left"
        )
    ticks, partitions = len(tally.lag), len(run.lag)
    return StrategyFigures(
        strategy=strategy,
        above=round(float(tally.above.sum()) / (ticks * max(partitions, 1)), 8),
        group_above=round(float(np.count_nonzero(tally.above)) / ticks, 8),
        wait=round(float(tally.lag.sum()) * tick / max(tally.processed, 1), 6),
        lag=_percentiles(tally.lag),
        drain=_percentiles(tally.drain),
        cross_bytes=round(tally.crossed, 3),
        cross_share=round(tally.crossed / tally.located, 8) if tally.located else None,
        moves=tally.moves,
        plans={cause.value: count for cause, count in sorted(tally.plans.items())},
        suppressed=run.control.suppressed,
        arrived=arrived,
        processed=tally.processed,
        left=left,
        plan_seconds={
            "mean": round(float(np.mean(tally.plan_seconds)), 6),
            "max": round(max(tally.plan_seconds), 6),
        },
        course=tally.lag,
    )


def _percentiles(column: np.ndarray) -> dict[str, float]:
    # Percentiles are values that occurred, without interpolation.
    p50, p99 = np.percentile(column, [50, 99], method="higher").tolist()
    return {
        name: round(float(value), 6)
        for name, value in (("p50", p50), ("p99", p99), ("max", column.max()))
    }


COLUMNS = (
    "time above",
    "group above",
    "mean wait",
    "lag p50",
    "lag p99",
    "lag max",
    "drain p99",
    "cross-rack",
    "share",
    "moves",
    "plans",
    "plan ms",
)


def table(rows: Sequence[StrategyFigures]) -> str:
    """Figures in aligned columns; the least value of a column is starred if the values differ."""
    values = [_values(row) for row in rows]
    best = [least(column) for column in zip(*values, strict=True)]
    lines = [["strategy", *(f"{name} " for name in COLUMNS)]]
    for row, figures_of in zip(rows, values, strict=True):
        cells = [
            text + ("*" if value is not None and value == lowest else " ")
            for text, value, lowest in zip(_cells(row), figures_of, best, strict=True)
        ]
        lines.append([row.strategy, *cells])
    return aligned(lines)


def _values(row: StrategyFigures) -> list[float | None]:
    return [
        row.above,
        row.group_above,
        row.wait,
        row.lag["p50"],
        row.lag["p99"],
        row.lag["max"],
        row.drain["p99"],
        row.cross_bytes if row.cross_share is not None else None,
        row.cross_share,
        row.moves,
        sum(row.plans.values()),
        None,  # not compared: it depends on the machine
    ]


def _cells(row: StrategyFigures) -> list[str]:
    return [
        f"{row.above:.3%}",
        f"{row.group_above:.1%}",
        f"{row.wait:.2f} s",
        f"{row.lag['p50']:,.0f}",
        f"{row.lag['p99']:,.0f}",
        f"{row.lag['max']:,.0f}",
        f"{row.drain['p99']:,.1f} s",
        bytes_text(row.cross_bytes) if row.cross_share is not None else "-",
        f"{row.cross_share:.1%}" if row.cross_share is not None else "-",
        f"{row.moves:,}",
        f"{sum(row.plans.values()):,}",
        f"{row.plan_seconds['mean'] * 1000:.1f}",
    ]
