"""Comparison of strategies on one group, as a table and as JSON.

Guarantees: every strategy plans the same group, and each figure comes from `score`; less is better
in every figure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.score import FIGURES, Score, score
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.registry import Strategy, strategy_named

HEADINGS = {"cross_rack": "cross-rack", "drain_seconds": "drain s", "wait_seconds": "wait s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """Result of one strategy."""

    strategy: str
    """Name of the strategy."""
    score: Score
    """Score of its assignment."""
    plan_micros: int
    """Microseconds that planning took, the shorter of two runs."""
    violations: tuple[str, ...]
    """Broken invariants, a sentence each; empty for a valid assignment."""

    def as_json(self) -> dict[str, object]:
        """The row as a JSON object."""
        return {
            "strategy": self.strategy,
            "score": self.score.as_json(),
            "plan_micros": self.plan_micros,
            "violations": list(self.violations),
        }


def compare(
    group: Group, names: Iterable[str], options: Mapping[str, Any] = MappingProxyType({})
) -> tuple[ComparisonRow, ...]:
    """Run strategies on a group and score them, in the given order.

    Each strategy gets those of the options that it takes.

    Raises:
        ProblemError: a name is unknown, or an option is out of its range.
        SolverMissingError: a strategy needs OR-tools, which is not installed.
    """
    return tuple(_row(group, name, options) for name in names)


def _row(group: Group, name: str, options: Mapping[str, Any]) -> ComparisonRow:
    strategy = strategy_named(name, options)
    first_micros, _ = _timed(strategy, group)  # the first run may load the solver
    second_micros, assignment = _timed(strategy, group)
    return ComparisonRow(
        strategy=name,
        score=score(group, assignment),
        plan_micros=min(first_micros, second_micros),
        violations=violations(group, assignment),
    )


def _timed(strategy: Strategy, group: Group) -> tuple[int, Assignment]:
    """Run a strategy; microseconds and assignment."""
    started = perf_counter_ns()
    assignment = strategy(group)
    return (perf_counter_ns() - started) // 1000, assignment


def table(rows: Sequence[ComparisonRow]) -> str:
    """Format the rows in aligned columns, with a star at the best figure of each column."""
    best = {figure: least(row.score.as_json()[figure] for row in rows) for figure in FIGURES}
    lines = [["strategy", *(HEADINGS.get(figure, figure) for figure in FIGURES), "µs"]]
    for row in rows:
        figures = row.score.as_json()
        cells = [_cell(figures[figure], best[figure]) for figure in FIGURES]
        name = row.strategy + (" (invalid)" if row.violations else "")
        lines.append([name, *cells, str(row.plan_micros)])
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [
                line[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for line in lines
    )


def least(values: Iterable[float | None]) -> float | None:
    """Least value of a column; None where all of its values agree or there is none."""
    known = [value for value in values if value is not None]
    return min(known) if known and min(known) < max(known) else None


def _cell(value: float | None, best: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:g}" + ("*" if best is not None and value == best else " ")
