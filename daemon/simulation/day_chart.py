"""Chart of `simulate`: one row a strategy, with its lag over time and its figures as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from levelwind.daemon.charts import BEST, INK, MUTED, PLAIN, chart_file
from levelwind.daemon.console import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from levelwind.daemon.simulation.results import StrategyFigures

CURVE_INCHES, BAR_INCHES, LINE_INCHES, ENDS_INCHES = 4.6, 1.45, 0.5, 1.35
"""Width of the lag curves, width of a panel of bars, height of a strategy, and height of the title
and legend together."""
NAMES_INCHES = 1.5
"""Width of the strategies' names."""
CHART_POINTS = 600
"""Points of a lag curve. Each is the maximum of its ticks, so that no peak is lost."""


def _short(value: float) -> str:
    for unit in ("", "k", "M", "G"):
        if value < 1000:
            return f"{value:,.3g}{unit}"
        value /= 1000
    return f"{value:,.3g}T"


BARS: tuple[tuple[str, Callable[[StrategyFigures], float | None], Callable[[float], str]], ...] = (
    ("time above target", lambda row: row.above, lambda value: f"{value:.2%}"),
    ("mean wait", lambda row: row.wait, lambda value: f"{value:,.1f} s"),
    ("p99 lag", lambda row: row.lag["p99"], _short),
    (
        "read across racks",
        lambda row: row.cross_bytes if row.cross_share is not None else None,
        bytes_text,
    ),
    ("moves", lambda row: row.moves, lambda value: f"{value:,.0f}"),
)


def draw_simulation(
    title: str, rows: Sequence[StrategyFigures], seconds: float, path: Path
) -> None:
    """Draw the results of all strategies on one scale.

    Raises:
        ConfigurationError: the file does not end in .svg or .png, or cannot be written.
    """
    width = NAMES_INCHES + CURVE_INCHES + BAR_INCHES * len(BARS)
    with chart_file(path, width=width, height=ENDS_INCHES + LINE_INCHES * len(rows)) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        grid = figure.add_gridspec(
            len(rows), 1 + len(BARS), width_ratios=[CURVE_INCHES, *[BAR_INCHES] * len(BARS)]
        )
        top = max(float(row.course.max(initial=0)) for row in rows) or 1.0
        least = min(row.lag["p99"] for row in rows)
        first: Axes | None = None
        for line, row in enumerate(rows):
            axes = figure.add_subplot(grid[line, 0], sharex=first)
            first = first or axes
            _lag_curve(axes, row, seconds, top, best=row.lag["p99"] == least)
            _time_axis(axes, seconds, last=line == len(rows) - 1)
        if first is not None:
            first.set_title(
                "lag of the group, records (logarithmic: lines at powers of ten)",
                loc="left",
                fontweight="normal",
            )
        for column, (name, figure_of, figure_text) in enumerate(BARS, start=1):
            axes = figure.add_subplot(grid[:, column])
            _bars(axes, name, [figure_of(row) for row in rows], figure_text)
        legend = [
            Patch(facecolor=BEST, label="least"),
            Patch(facecolor=PLAIN, label="others; less is better throughout"),
        ]
        figure.legend(handles=legend, loc="outside lower right", ncols=2, fontsize=8)


def _lag_curve(axes: Axes, row: StrategyFigures, seconds: float, top: float, *, best: bool) -> None:
    size = max(len(row.course) // CHART_POINTS, 1)
    peaks = np.maximum.reduceat(row.course, np.arange(0, len(row.course), size)).astype(float)
    _, scale = _unit(seconds)
    time = np.linspace(0, seconds / scale, len(peaks))
    axes.fill_between(time, 0, peaks, step="mid", color=BEST if best else MUTED, linewidth=0)
    low = max(top / 1e4, 1.0)
    axes.set_yscale("symlog", linthresh=low, linscale=0.3)
    axes.set_ylim(0, top * 1.1)
    axes.set_yticks([top], [_short(top)], fontsize=7)
    axes.set_yticks([power for power in 10.0 ** np.arange(16) if low <= power < top], minor=True)
    axes.grid(visible=True, axis="y", which="minor", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", which="minor", length=0, labelleft=False)
    axes.set_ylabel(
        row.strategy,
        rotation=0,
        ha="right",
        va="center",
        color=INK,
        fontweight="bold" if best else "normal",
    )


def _time_axis(axes: Axes, seconds: float, *, last: bool) -> None:
    unit, scale = _unit(seconds)
    axes.set_xlim(0, seconds / scale)
    axes.tick_params(axis="x", labelbottom=last, length=2 if last else 0)
    if last:
        axes.set_xlabel(unit)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 3, 5, 6, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _unit(seconds: float) -> tuple[str, float]:
    return ("hours", 3600.0) if seconds > 2 * 3600 else ("minutes", 60.0)


def _bars(
    axes: Axes, name: str, values: Sequence[float | None], figure_text: Callable[[float], str]
) -> None:
    present = [value for value in values if value is not None]
    least, most = min(present, default=0), max(present, default=0) or 1
    for line, value in enumerate(values):
        best = value is not None and value == least and len(set(present)) > 1
        axes.barh(line, value or 0, height=0.5, color=BEST if best else PLAIN)
        axes.annotate(
            "-" if value is None else figure_text(value),
            (value or 0, line),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=MUTED if value is None else INK,
            fontweight="bold" if best else "normal",
        )
    axes.set_title(name, loc="left", fontweight="normal")
    axes.set_xlim(0, most * 1.75)  # room for the figure beside the longest bar
    axes.set_ylim(len(values) - 0.5, -0.5)  # the first strategy on top
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(bottom=False, labelbottom=False)
