"""The style of levelwind's charts, and the chart of `compare`.

Guarantees: the same figures give the same bytes: the file holds no time and no random ids, the font
comes with Matplotlib, and Matplotlib's global state is neither read from the user's settings nor
left changed. Text in an SVG stays text, so that it can be searched and read aloud.
"""

from __future__ import annotations

from contextlib import contextmanager
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import rc_context, rcParamsDefault
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from levelwind.assignors.comparison import HEADINGS
from levelwind.assignors.problem.score import FIGURES
from levelwind.daemon.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from levelwind.assignors.comparison import ComparisonRow

INK, MUTED, BACKGROUND = "#1c2733", "#8a949e", "#ffffff"
BEST, PLAIN, BAD = "#1f5fb4", "#a9c4e6", "#c8452b"
STYLE = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a name may contain a dollar sign
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "grid.color": "#e3e7eb",
    "legend.frameon": False,
    "figure.facecolor": BACKGROUND,
    "savefig.facecolor": BACKGROUND,
    "hatch.linewidth": 0.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "levelwind",
}
DPI = 144
CHART_FORMATS: tuple[Literal["svg", "png"], ...] = ("svg", "png")


def chart_format(path: Path) -> Literal["svg", "png"]:
    """Return the format that a file's suffix names.

    Raises:
        ConfigurationError: the format is not supported, or the directory does not exist.
    """
    for file_format in CHART_FORMATS:
        if path.suffix.lower() == f".{file_format}":
            if not path.parent.is_dir():
                raise ConfigurationError(
                    f"chart {str(path)!r}: there is no directory {path.parent}"
                )
            return file_format
    raise ConfigurationError(f"chart {str(path)!r}: the name must end in .svg or .png")


@contextmanager
def chart_file(path: Path, *, width: float, height: float) -> Iterator[Figure]:
    """An empty figure in levelwind's style; written to `path` when the block ends.

    Raises:
        ConfigurationError: the suffix is unknown, or the file cannot be written.
    """
    file_format = chart_format(path)
    with rc_context(_parameters()):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        metadata = (
            {"Date": None, "Creator": "levelwind"}
            if file_format == "svg"
            else {"Software": "levelwind"}
        )
        try:
            figure.savefig(path, format=file_format, dpi=DPI, metadata=metadata)
        except OSError as error:
            raise ConfigurationError(f"chart {str(path)!r}: {error.strerror or error}") from error


def _parameters() -> dict[str, Any]:
    # Matplotlib's own defaults below levelwind's, whatever a matplotlibrc on this machine says;
    # no backend is chosen.
    defaults = {name: value for name, value in rcParamsDefault.items() if name != "backend"}
    return defaults | STYLE


PANEL_INCHES, NAMES_INCHES, LINE_INCHES, HEAD_INCHES, FOOT_INCHES = 1.75, 2.0, 0.25, 0.75, 0.35
"""Widths of a panel and of the strategies' names; heights of a row, the title and the legend."""
MAX_TITLE_LENGTH = 90
"""Largest number of characters of a title."""


def draw_comparison(bands: Sequence[tuple[str, Sequence[ComparisonRow]]], path: Path) -> None:
    """Draw a band of panels for each group, with a bar for each strategy and figure.

    Raises:
        ConfigurationError: as `chart_file`.
    """
    heights = [HEAD_INCHES + LINE_INCHES * max(len(rows), 1) for _, rows in bands]
    width = NAMES_INCHES + PANEL_INCHES * len(FIGURES)
    with chart_file(path, width=width, height=sum(heights) + FOOT_INCHES) as figure:
        parts = figure.subfigures(
            len(bands) + 1, 1, height_ratios=[*heights, FOOT_INCHES], squeeze=False
        )[:, 0]
        for part, (title, rows) in zip(parts, bands, strict=False):
            part.suptitle(
                shorten(title, MAX_TITLE_LENGTH, placeholder=" …"),
                x=0.01,
                ha="left",
                fontsize=11,
                fontweight="bold",
            )
            panels = part.subplots(1, len(FIGURES), sharey=True)
            for panel, name in zip(panels, FIGURES, strict=True):
                _panel(panel, rows, name)
            _strategy_labels(panels[0], rows)
        legend = [
            Patch(facecolor=BEST, label="best of the valid"),
            Patch(facecolor=PLAIN, label="others; less is better in all panels"),
            Patch(facecolor=BACKGROUND, edgecolor=BAD, hatch="////", label="breaks an invariant"),
        ]
        parts[-1].legend(handles=legend, loc="center", ncols=len(legend), fontsize=8)


def _panel(axes: Axes, rows: Sequence[ComparisonRow], name: str) -> None:
    values = [row.score.as_json()[name] for row in rows]
    valid = [
        value
        for row, value in zip(rows, values, strict=True)
        if value is not None and not row.violations
    ]
    most = max((value for value in values if value is not None), default=0) or 1
    for line, (row, value) in enumerate(zip(rows, values, strict=True)):
        best = not row.violations and value is not None and value == min(valid)
        (bar,) = axes.barh(line, value or 0, height=0.68, color=BEST if best else PLAIN)
        if row.violations:
            bar.set(facecolor=BACKGROUND, edgecolor=BAD, hatch="////")
        axes.annotate(
            _figure_text(name, value),
            (value or 0, line),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=MUTED if value is None else INK,
            fontweight="bold" if best else "normal",
        )
    axes.set_title(HEADINGS.get(name, name), loc="left", fontweight="normal")
    axes.set_xlim(0, most * 1.4)  # leaves room for the figure beside the longest bar
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(bottom=False, labelbottom=False, left=False)


def _strategy_labels(axes: Axes, rows: Sequence[ComparisonRow]) -> None:
    axes.set_yticks(
        range(len(rows)), [row.strategy + (" (invalid)" if row.violations else "") for row in rows]
    )
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)  # the first strategy on top
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        if row.violations:
            label.set_color(BAD)


def _figure_text(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name == "cross_rack":
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
