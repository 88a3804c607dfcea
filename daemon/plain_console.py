"""A console and tables that write no control characters but their own; see `daemon.console`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from levelwind.daemon.printable import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import ConsoleOptions, RenderableType, RenderResult


class PlainConsole(Console):
    """Rich's console, in which a name's control characters are shown as escapes."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does, which would leave out some control characters; a text is a line."""
        super().print(*map(_in_line, objects), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as Rich does, and make the text of each segment printable."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


class PlainTable(Table):
    """Rich's table, whose columns are as wide as their cells with the escapes.

    Where all do not fit, columns are left out instead of being folded, and named below the table.
    """

    def __init__(self, least: Sequence[str], **options: Any) -> None:
        """Make an empty table; `least` names what may be left out, the first one first."""
        super().__init__(**options)
        self.least = least

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row as Rich does."""
        super().add_row(*map(_in_line, cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render as Rich does, without columns for which there is no room."""
        widest = options.update_width(sys.maxsize)
        every, left_out = self.columns, []
        for name in self.least:
            if self.__rich_measure__(console, widest).maximum <= options.max_width:
                break
            fewer = [column for column in self.columns if column.header != name]
            if 0 < len(fewer) < len(self.columns):
                left_out.append(name)
                # The place of a column decides where a row is padded.
                self.columns = [replace(column, _index=n) for n, column in enumerate(fewer)]
        yield from super().__rich_console__(console, options)
        self.columns = every
        if left_out:
            yield Text(f"left out on {options.max_width} columns: {', '.join(left_out)}", "dim")


def _in_line(each: Any) -> Any:
    return one_line(each) if isinstance(each, str) else each
