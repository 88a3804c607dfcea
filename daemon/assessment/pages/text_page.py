"""The assessment as a page of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.daemon.assessment.pages.wording import (
    COLUMNS,
    LEAST,
    LEGEND,
    cells,
    group_lines,
    headlines,
    need_lines,
    unknown_lines,
    way_lines,
)
from levelwind.daemon.console import borderless_table, stdout_console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.daemon.assessment.assessment import Assessment

MOST_ROWS = 40
"""The most groups in the table: those that gain the most."""
MOST_DETAILED = 8
"""The most groups whose lines are printed, too; `--group` makes another choice."""


def print_assessment(assessment: Assessment) -> None:
    """Print the page to standard output."""
    console = stdout_console()
    for line in headlines(assessment):
        console.print(line, soft_wrap=True)
    console.print()
    table = borderless_table(*COLUMNS, least=LEAST)
    for group in assessment.groups[:MOST_ROWS]:
        table.add_row(*cells(group))
    if assessment.groups:
        console.print(table)
        console.print(LEGEND, soft_wrap=True)
    more = len(assessment.groups) - MOST_ROWS
    if more > 0:
        console.print(f"and {more:,} more groups: --group, or --format json or html, shows them")
    for group in assessment.groups[:MOST_DETAILED]:
        _print_section(group.name, [*group_lines(group), *way_lines(group)])
    _print_section("to follow", need_lines(assessment))
    _print_section("not known", unknown_lines(assessment))


def _print_section(title: str, lines: Iterable[str]) -> None:
    """Print lines under a title; nothing without a line."""
    console = stdout_console()
    for number, line in enumerate(lines):
        if number == 0:
            console.print()
            console.print(title, soft_wrap=True)
        console.print(f"  {line}", soft_wrap=True)
