"""Standard output for people: a console that shows what it is given, tables without lines, and times in words.

Rich is imported where something is printed with it: a command that prints JSON to a pipe never imports it.

Law: names are shown as they are and whole, also where the output is no terminal; nothing in them is taken for markup.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 10_000
"""Columns of an output that is no terminal: what is piped on is not to be folded."""


def stdout_console() -> Console:
    """Standard output."""
    from rich.console import Console  # noqa: PLC0415 - see the module

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def borderless_table(*names: tuple[str, bool]) -> Table:
    """An empty table; each column has a name, and is set to the right or not."""
    from rich.table import Table  # noqa: PLC0415 - see the module

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, right in names:
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    return table


@contextmanager
def status(text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text on standard error while the block runs, if that is a terminal.

    Yields:
        A function that replaces the text.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - see the module
    from rich.text import Text  # noqa: PLC0415 - see the module

    with Console(stderr=True).status(Text(text)) as spinner:
        yield lambda text: spinner.update(Text(text))


def age_text(seconds: float) -> str:
    """A time that has passed, in its largest unit."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
