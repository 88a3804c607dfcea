"""Results of a simulation: figures by strategy, as a table and as JSON.

Guarantees: less is better in every figure but the processed records. Everything but `timing` is the
same in every run of the same input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levelwind.assignors.comparison import aligned, least
from levelwind.daemon.console import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


class FigureColumn(NamedTuple):
    """Column of the table."""

    name: str
    value: Callable[[StrategyFigures], float | None]
    text: Callable[[float], str]
    compared: bool = True


COLUMNS = (
    FigureColumn("time above", lambda row: row.above, "{:.3%}".format),
    FigureColumn("group above", lambda row: row.group_above, "{:.1%}".format),
    FigureColumn("mean wait", lambda row: row.wait, "{:.2f} s".format),
    FigureColumn("lag p50", lambda row: row.lag["p50"], "{:,.0f}".format),
    FigureColumn("lag p99", lambda row: row.lag["p99"], "{:,.0f}".format),
    FigureColumn("lag max", lambda row: row.lag["max"], "{:,.0f}".format),
    FigureColumn("drain p99", lambda row: row.drain["p99"], "{:,.1f} s".format),
    FigureColumn(
        "cross-rack", lambda row: None if row.cross_share is None else row.cross_bytes, bytes_text
    ),
    FigureColumn("share", lambda row: row.cross_share, "{:.1%}".format),
    FigureColumn("moves", lambda row: row.moves, "{:,}".format),
    FigureColumn("plans", lambda row: sum(row.plans.values()), "{:,}".format),
    # Not compared: it depends on the machine.
    FigureColumn(
        "plan ms", lambda row: row.plan_seconds["mean"] * 1000, "{:.1f}".format, compared=False
    ),
)


def table(rows: Sequence[StrategyFigures]) -> str:
    """Figures in aligned columns; the least value of a column is starred if the values differ."""
    columns = [["strategy", *(row.strategy for row in rows)]]
    for name, value_of, text_of, compared in COLUMNS:
        values = [value_of(row) for row in rows]
        best = least(values) if compared else None
        cells = [
            "- " if value is None else text_of(value) + ("*" if value == best else " ")
            for value in values
        ]
        columns.append([f"{name} ", *cells])
    return aligned([*zip(*columns, strict=True)])
