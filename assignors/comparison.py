"""Several strategies on one group, side by side: as a table, as JSON and as a picture.

Law: every strategy gets the same group, and each figure is the score's; less is better throughout.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from time import perf_counter_ns

from assignors.group import Group
from assignors.invariants import violations
from assignors.score import Score, score
from assignors.strategies import strategy_named

FIGURES = ("spread", "cross_rack", "moved", "lag_max_over_mean")
HEADINGS = {"cross_rack": "cross-rack", "lag_max_over_mean": "lag max/mean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One strategy's result."""

    strategy: str
    score: Score
    plan_micros: int
    violations: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """The row by names."""
        return {
            "strategy": self.strategy,
            "score": self.score.as_json(),
            "plan_micros": self.plan_micros,
            "violations": list(self.violations),
        }


def compare(group: Group, names: Iterable[str]) -> tuple[Row, ...]:
    """Run the strategies on the group and score them, in the order in which they are named.

    Raises:
        ProblemError: one of the names is unknown.
    """
    return tuple(_row(group, name) for name in names)


def _row(group: Group, name: str) -> Row:
    strategy = strategy_named(name)
    begun = perf_counter_ns()
    assignment = strategy(group)
    micros = (perf_counter_ns() - begun) // 1000
    return Row(
        strategy=name,
        score=score(group, assignment),
        plan_micros=micros,
        violations=violations(group, assignment),
    )


def table(rows: Sequence[Row]) -> str:
    """The rows in aligned columns; the best figure of each column is starred."""
    best = {figure: _best(rows, figure) for figure in FIGURES}
    lines = [["strategy", *(HEADINGS.get(figure, figure) for figure in FIGURES), "µs"]]
    for row in rows:
        figures = row.score.as_json()
        cells = [_cell(figures[figure], best[figure]) for figure in FIGURES]
        name = row.strategy + (" (invalid)" if row.violations else "")
        lines.append([name, *cells, str(row.plan_micros)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
            ]
        )
        for line in lines
    )


def _best(rows: Sequence[Row], figure: str) -> float | None:
    known = [value for row in rows if (value := row.score.as_json()[figure]) is not None]
    return min(known) if known and min(known) < max(known) else None


def _cell(value: float | None, best: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:g}" + ("*" if best is not None and value == best else " ")


LEFT, RIGHT, BAR, GAP, PANEL = 170, 70, 14, 4, 260


def picture(rows: Sequence[Row]) -> str:
    """An SVG with a panel of bars for each figure; it needs nothing but a browser, and reads in light and in dark."""
    width = LEFT + len(FIGURES) * (PANEL + RIGHT)
    height = 40 + len(rows) * (BAR + GAP) + 10
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="12">',
        "<title>Strategies compared: less is better</title>",
        "<style>text{fill:#1c2733} .bar{fill:#3b7dd8} .bad{fill:#d8583b} .axis{stroke:#8a949e}</style>",
        "<style>@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>",
    ]
    for line, row in enumerate(rows):
        y = 40 + line * (BAR + GAP)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + BAR - 3}" text-anchor="end">{escape(row.strategy)}</text>'
        )
    for panel, figure in enumerate(FIGURES):
        parts += _panel(rows, figure, LEFT + panel * (PANEL + RIGHT), height)
    return "\n".join([*parts, "</svg>", ""])


def _panel(rows: Sequence[Row], figure: str, x: int, height: int) -> list[str]:
    values = [row.score.as_json()[figure] for row in rows]
    most = max((value for value in values if value is not None), default=0) or 1
    parts = [
        f'<text x="{x}" y="24" font-weight="600">{HEADINGS.get(figure, figure)}</text>',
        f'<line class="axis" x1="{x}" y1="34" x2="{x}" y2="{height - 8}"/>',
    ]
    for line, (row, value) in enumerate(zip(rows, values, strict=True)):
        y = 40 + line * (BAR + GAP)
        length = 0.0 if value is None else PANEL * value / most
        kind = "bad" if row.violations else "bar"
        parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{length:.1f}" height="{BAR}"/>')
        shown = "-" if value is None else f"{value:g}"
        parts.append(f'<text x="{x + length + 4:.1f}" y="{y + BAR - 3}">{shown}</text>')
    return parts
