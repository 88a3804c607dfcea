"""Terminal output for people: text, borderless tables, a spinner, and figures in words.

Rich is imported only where something is printed with it: a command that prints JSON to a pipe
never imports it.

Guarantees: names are printed verbatim and whole, also where the output is not a terminal; nothing
in a name is interpreted as markup, none of its characters steers the terminal (`printable`), and
none begins another line or row (`one_line`). A table that is wider than the terminal leaves columns
out, and says which.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from levelwind.daemon.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 10_000
"""Width, in columns, of an output that is not a terminal: piped lines are never folded."""


def stdout_console() -> Console:
    """A console on standard output that prints text verbatim."""
    from levelwind.daemon.plain_console import PlainConsole  # noqa: PLC0415 - see the module

    console = PlainConsole(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def echo(text: str, *, err: bool = False) -> None:
    """Print a line to standard output, or to standard error."""
    click.echo(printable(text), err=err)


def borderless_table(*names: tuple[str, bool], least: Sequence[str] = ()) -> Table:
    """Make an empty table.

    Args:
        names: each column's name, and whether it is right-aligned, as figures are, which are never
            folded.
        least: the columns that a terminal too narrow for all goes without, the first one first.
    """
    from levelwind.daemon.plain_console import PlainTable  # noqa: PLC0415 - see the module

    table = PlainTable(least, box=None, header_style="bold", pad_edge=False)
    for name, right in names:
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
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


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 group, 2,000 partitions."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def bytes_text(size: float) -> str:
    """Bytes in the largest unit that fits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.2f} TB"


def age_text(seconds: float) -> str:
    """A duration in its largest unit: 59 s, 3 min, 2 h, 5 d."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
