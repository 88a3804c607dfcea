"""The two panes of the demo: the same workload under Kafka's assignor and under levelwind. Pure.

A pane shows how far each consumer of a group is behind, on a scale that both panes share, and how
long the records of the last seconds waited.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEVELS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 22
"""Columns of the longest bar of a pane."""
NAME_WIDTH = 18
"""Columns of a pane's title in a line of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pane:
    """What one pane shows."""

    title: str
    style: str
    group: str
    lags: Mapping[str, int | None]
    """Records behind, by consumer; None where that is not known of one of its partitions."""
    p99: float | None
    """Seconds that 99 of 100 records of the last seconds waited at most; None without records."""

    @property
    def lag(self) -> int | None:
        """Records that the group is behind; None where that is not known of each consumer."""
        known = [lag for lag in self.lags.values() if lag is not None]
        return sum(known) if len(known) == len(self.lags) else None

    def summary(self) -> str:
        """The group's figures in a few words."""
        waited = "no records yet" if self.p99 is None else f"p99 delay {self.p99:.1f} s"
        behind = "lag not known yet" if self.lag is None else f"{self.lag:,} behind"
        return f"{behind}, {waited}"


def member_lags(
    partition_lags: Mapping[tuple[str, int], int],
    owned: Mapping[str, frozenset[tuple[str, int]]],
) -> dict[str, int | None]:
    """Records that each consumer is behind, from the lag of the partitions that it owns.

    None for a consumer that owns a partition whose lag is not known.
    """
    return {
        name: sum(partition_lags[partition] for partition in partitions)
        if partitions <= partition_lags.keys()
        else None
        for name, partitions in sorted(owned.items())
    }


def p99_delay(delays: Sequence[float]) -> float | None:
    """The smallest delay that 99 % of all do not exceed; None without any."""
    return sorted(delays)[ceil(0.99 * len(delays)) - 1] if delays else None


def scale_of(panes: Sequence[Pane]) -> int:
    """The largest lag of any consumer of any pane: the length of the longest bar."""
    return max([1, *(lag or 0 for pane in panes for lag in pane.lags.values())])


def panes_line(panes: Sequence[Pane]) -> str:
    """All panes in one line, one small bar a consumer: for an output that is not a terminal."""
    most = scale_of(panes)
    return "  |  ".join(
        f"{pane.title:{NAME_WIDTH}} {_small_bars(pane, most)} {pane.summary()}" for pane in panes
    )


def _small_bars(pane: Pane, most: int) -> str:
    return "".join(
        " " if lag is None else LEVELS[round(lag / most * (len(LEVELS) - 1))]
        for _, lag in sorted(pane.lags.items())
    )


def panes_side_by_side(panes: Sequence[Pane]) -> Table:
    """All panes beside each other, one bar a consumer: for a terminal."""
    most = scale_of(panes)
    grid = Table.grid(expand=True)
    for _ in panes:
        grid.add_column(ratio=1)
    grid.add_row(*(_panel(pane, most) for pane in panes))
    return grid


def _panel(pane: Pane, most: int) -> Panel:
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column(width=BAR_WIDTH, no_wrap=True)
    rows.add_column(justify="right", no_wrap=True)
    for name, lag in sorted(pane.lags.items()):
        bar = "█" * round((lag or 0) / most * BAR_WIDTH)
        rows.add_row(Text(name), Text(bar, style=pane.style), "-" if lag is None else f"{lag:,}")
    return Panel(
        rows,
        title=Text(f"{pane.title}: group {pane.group}"),
        subtitle=Text(pane.summary()),
        border_style=pane.style,
    )
