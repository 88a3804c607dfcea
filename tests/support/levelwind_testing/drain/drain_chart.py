"""Picture of the rounds: a band of panels for each scenario, with a bar for each candidate."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from levelwind.daemon.charts import BEST, INK, MUTED, PLAIN, chart_file
from levelwind_testing.drain.drain_candidates import CANDIDATES
from levelwind_testing.drain.drain_report import counted
from levelwind_testing.drain.drain_scenarios import ALL_SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from levelwind_testing.drain.drain_report import ReplayFigures
    from levelwind_testing.drain.drain_round import RoundResult

WIDTH_INCHES, LINE_INCHES, HEAD_INCHES, FOOT_INCHES = 11.0, 0.22, 0.85, 0.35
PANELS: Sequence[
    tuple[
        str,
        Callable[[RoundResult], float | None],
        Callable[[ReplayFigures], float | None] | None,
        str,
    ]
] = (
    (
        "drain over ideal",
        lambda result: result.figures.drain_over_ideal,
        lambda figures: figures.drain_over_ideal,
        "{:.2f}",
    ),
    ("p99 delay, s", lambda result: result.figures.p99, lambda figures: figures.p99, "{:.1f}"),
    ("idle share, %", lambda result: 100 * result.figures.idle, None, "{:.0f}"),
    ("moves", lambda result: result.figures.moves, lambda figures: figures.moves, "{:.0f}"),
    ("from other racks, MB", lambda result: result.remote_bytes / 1e6, None, "{:.1f}"),
)


def draw_rounds(
    results: Sequence[RoundResult],
    replayed: Mapping[tuple[str, str], Sequence[ReplayFigures]],
    path: Path,
) -> None:
    """Draw medians as bars, least and largest as whiskers, and the replay's median as a mark.

    Raises:
        ConfigurationError: the file does not end in .svg or .png, or cannot be written.
    """
    valid = counted(results)
    names = [name for name in ALL_SCENARIOS if any(r.key.scenario == name for r in valid)]
    rows = {
        name: [
            c
            for c in CANDIDATES
            if any((r.key.scenario, r.key.candidate) == (name, c) for r in valid)
        ]
        for name in names
    }
    heights = [HEAD_INCHES + LINE_INCHES * len(rows[name]) for name in names]
    with chart_file(path, width=WIDTH_INCHES, height=sum(heights) + FOOT_INCHES) as figure:
        parts = figure.subfigures(
            len(names) + 1, 1, height_ratios=[*heights, FOOT_INCHES], squeeze=False
        )[:, 0]
        for part, name in zip(parts, names, strict=False):
            title = f"{name}: {ALL_SCENARIOS[name].title}"
            part.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
            axes = part.subplots(1, len(PANELS), sharey=True)
            for panel, (heading, measured, modelled, text) in zip(axes, PANELS, strict=True):
                of_candidate = [
                    [r for r in valid if (r.key.scenario, r.key.candidate) == (name, candidate)]
                    for candidate in rows[name]
                ]
                values = [
                    [v for r in some if (v := measured(r)) is not None] for some in of_candidate
                ]
                models = [
                    [
                        v
                        for f in replayed.get((name, c), ())
                        if modelled and (v := modelled(f)) is not None
                    ]
                    for c in rows[name]
                ]
                _bars(panel, heading, values, models, text)
            axes[0].set_yticks(range(len(rows[name])), rows[name])
            axes[0].set_ylim(len(rows[name]) - 0.5, -0.5)
        legend = [
            Patch(facecolor=BEST, label="least median"),
            Patch(facecolor=PLAIN, label="others; less is better throughout"),
            Line2D([], [], color=INK, linewidth=2, label="the simulation's replay"),
        ]
        parts[-1].legend(handles=legend, loc="center", ncols=len(legend), fontsize=8)


def _bars(
    axes: Axes,
    heading: str,
    values: Sequence[Sequence[float]],
    models: Sequence[Sequence[float]],
    text: str,
) -> None:
    finite = [[value for value in some if value != float("inf")] for some in values]
    medians = [median(some) if some else None for some in values]
    present = [value for value in medians if value is not None]
    most = max([v for some in (*finite, *models) for v in some], default=0) or 1
    for line, (some, middle, model) in enumerate(zip(values, medians, models, strict=True)):
        if middle is None:
            axes.annotate("-", (0, line), va="center", color=MUTED)
            continue
        best = middle == min(present) and len(set(present)) > 1
        length = min(middle, most * 1.1)
        axes.barh(line, length, height=0.68, color=BEST if best else PLAIN)
        if len(some) > 1 and max(some) != float("inf"):
            axes.plot([min(some), max(some)], [line, line], color=MUTED, linewidth=1)
        if model:
            axes.plot([median(model)] * 2, [line - 0.34, line + 0.34], color=INK, linewidth=2)
        end = max([length, *(v for v in (*some, *model) if v != float("inf"))])
        axes.annotate(
            "not in the round" if middle == float("inf") else text.format(middle),
            (end, line),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            fontweight="bold" if best else "normal",
        )
    axes.set_title(heading, loc="left", fontweight="normal")
    axes.set_xlim(0, most * 1.5)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(bottom=False, labelbottom=False, left=False)
