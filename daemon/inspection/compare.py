"""`levelwind compare`: strategies side by side, on the problems of a file or on a live group.

An invalid problem yields an error of its own, as with `levelwind assign`; the others are compared
nevertheless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from levelwind.assignors.comparison import ComparisonRow, compare, table
from levelwind.assignors.json_problems import parse_line, parse_problem
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.registry import STRATEGIES, strategy_named
from levelwind.daemon.console import counted
from levelwind.daemon.errors import ConfigurationError
from levelwind.daemon.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

MAX_BANDS = 25
"""Largest number of groups in one chart, so that the figures stay readable in print."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupComparison:
    """The comparison of one group, or the reason why there is none."""

    id: object
    title: str
    rows: tuple[ComparisonRow, ...] = ()
    error: str | None = None

    def as_json(self) -> dict[str, object]:
        """The comparison as one line of JSON output."""
        if self.error is not None:
            return {"id": self.id, "error": self.error}
        return {"id": self.id, "strategies": [row.as_json() for row in self.rows]}

    def as_text(self) -> str:
        """The comparison as text: a title and a table."""
        body = table(self.rows) if self.error is None else f"error: {one_line(self.error)}"
        return f"{one_line(self.title)}\n{body}\n"


def parse_strategies(names: str | None) -> tuple[str, ...] | None:
    """Parse a comma-separated list of strategies; None: those that each problem names, else all.

    Raises:
        ConfigurationError: a strategy is unknown.
    """
    if names is None:
        return None
    listed = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    try:
        for name in listed:
            strategy_named(name)
    except ProblemError as error:
        raise ConfigurationError(str(error)) from error
    return listed


def compare_lines(
    lines: Iterable[str | bytes], strategies: Sequence[str] | None
) -> Iterator[GroupComparison]:
    """Compare the strategies on each problem; blank lines are skipped."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _compared(line, strategies, f"line {number}")


def _compared(line: str | bytes, strategies: Sequence[str] | None, default: str) -> GroupComparison:
    identity: object = None
    try:
        fields = parse_line(line)
        identity = given_id if isinstance(given_id := fields.get("id"), str | int) else None
        chosen = list(strategies or ()) or fields.get("strategy") or list(STRATEGIES)
        problem = parse_problem(fields | {"strategy": chosen})
        group = Group.build(problem.topics, problem.members)
        rows = compare(group, problem.strategies, problem.options)
    except ProblemError as wrong:
        return GroupComparison(
            id=identity, title=_title_prefix(identity, default), error=str(wrong)
        )
    return GroupComparison(
        id=identity, title=_title(_title_prefix(identity, default), group), rows=rows
    )


def _title_prefix(identity: object, default: str) -> str:
    return default if identity is None else str(identity)


def compare_group(
    name: str, group: Group, strategies: Sequence[str] | None, options: Mapping[str, Any]
) -> GroupComparison:
    """Compare the strategies on a live group, each with the options the daemon would pass."""
    rows = compare(group, strategies or list(STRATEGIES), options)
    return GroupComparison(id=name, title=_title(name, group), rows=rows)


def _title(name: str, group: Group) -> str:
    return (
        f"{name}: {counted(len(group.members), 'member')}, {counted(len(group.topics), 'topic')}, "
        f"{counted(group.partition_count, 'partition')}"
    )


def draw_chart(compared: Sequence[GroupComparison], path: Path) -> None:
    """Draw the comparisons of all valid problems.

    Raises:
        ConfigurationError: there are none, or too many for one chart, or the file cannot be
            written.
    """
    from levelwind.daemon.charts import draw_comparison  # noqa: PLC0415 - Matplotlib takes half a second

    bands = [
        (comparison.title, comparison.rows) for comparison in compared if comparison.error is None
    ]
    if not 0 < len(bands) <= MAX_BANDS:
        raise ConfigurationError(
            f"chart {str(path)!r}: a chart shows 1 to {MAX_BANDS} groups, "
            f"and {len(bands)} could be compared"
        )
    draw_comparison(bands, path)
