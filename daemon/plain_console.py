"""A console and tables that write no control characters but their own; see `daemon.console`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Table

from levelwind.daemon.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


class PlainConsole(Console):
    """Rich's console, in which a name's control characters are shown as escapes."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does, which would leave out some control characters of a text."""
        super().print(*map(_printable, objects), **options)

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
    """Rich's table, whose columns are as wide as their cells with the escapes."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row as Rich does."""
        super().add_row(*map(_printable, cells), **options)


def _printable(each: Any) -> Any:
    return printable(each) if isinstance(each, str) else each
