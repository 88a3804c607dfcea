"""Rows of partitions with the columns of `kafka-consumer-groups --describe`, and a few more.

There is a row for each partition that somebody owns or has committed, and for each member that owns
nothing, of classic groups, of those of KIP-848, of managed and of empty ones alike.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, NamedTuple

import click

from levelwind.daemon.console import borderless_table, stdout_console
from levelwind.daemon.printable import cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.table import Table

    from levelwind.assignors.protocol.records import LagRecord
    from levelwind.daemon.shown_groups.shown_group import ShownGroup
    from levelwind.daemon.wire.describe_requests import DescribedMember


class OffsetRow(NamedTuple):
    """One row; a field is None where there is nothing to say."""

    group: str
    topic: str | None = None
    partition: int | None = None
    current_offset: int | None = None
    log_end_offset: int | None = None
    lag: int | None = None
    consumer_id: str | None = None
    host: str | None = None
    client_id: str | None = None
    rack: str | None = None
    local: bool | None = None
    """Whether the member's rack holds a replica."""
    seconds: float | None = None
    """For how long the next record has waited."""
    seconds_lower_bound: bool | None = None
    """Whether `seconds` is a lower bound: the record may have waited for longer."""

    def texts(self) -> list[str]:
        """Return the fields as the table shows them, `-` for nothing; ≥ before a lower bound."""
        *texts, seconds, _ = map(_text, self)
        return [*texts, f"≥{seconds}" if self.seconds_lower_bound else seconds]


COLUMNS = tuple(name.upper().replace("_", "-") for name in OffsetRow._fields)
TABLE_COLUMNS = COLUMNS[:-1]
"""Columns of the table, which marks a lower bound in its own column."""
LEAST = (
    "CLIENT-ID",
    "HOST",
    "LOCAL",
    "RACK",
    "REPLICA-RACKS",
    "GROUP",
    "NOTE",
    "PLANNED",
    "SECONDS",
)
"""Columns that a narrow terminal goes without, the first one first."""
NUMBERS = frozenset({"PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "SECONDS"})


def offset_rows(
    shown: ShownGroup,
    described: Mapping[str, DescribedMember] | None = None,
    *,
    by_lag: bool = False,
) -> list[OffsetRow]:
    """Return the rows of a group.

    Args:
        shown: the group.
        described: its members as the brokers describe them, by instance or else by member id.
        by_lag: whether the rows with the largest lag come first; else by topic and partition.
    """
    members = _member_rows(shown, described or {})
    owners, racks = shown.measured.owners, shown.measured.racks

    def reader(name: str | None) -> OffsetRow:
        known = members.get(name or "")
        return known or OffsetRow(shown.name, consumer_id=name, rack=racks.get(name or ""))

    rows: list[OffsetRow] = []
    for topic, record in sorted(shown.measured.lags.items()):
        readers = [reader(owners.get((topic, number))) for number in range(len(record.lag))]
        rows += _sampled_rows(record, readers)
    rows += [
        reader(owner)._replace(topic=topic, partition=number)
        for (topic, number), owner in sorted(owners.items())
        if topic not in shown.records.lags
    ]
    rows += [members[name] for name in sorted(members.keys() - set(owners.values()))]
    return largest_lag_first(rows) if by_lag else rows


def largest_lag_first(rows: Iterable[OffsetRow]) -> list[OffsetRow]:
    """Return rows by their lag; those without any come last."""
    return sorted(rows, key=lambda row: -1 if row.lag is None else row.lag, reverse=True)


def _member_rows(shown: ShownGroup, known: Mapping[str, DescribedMember]) -> dict[str, OffsetRow]:
    """Rows of the members alone, by instance or else by member id."""
    racks = shown.measured.racks
    if shown.records.watched:
        return {
            name: OffsetRow(
                shown.name,
                consumer_id=member.id,
                host=member.host or None,
                client_id=member.client_id or None,
                rack=racks.get(name),
            )
            for name, member in known.items()
        }
    return {
        name: OffsetRow(
            shown.name,
            consumer_id=f"{name}/{incarnation}",
            client_id=name,
            rack=racks.get(name),
        )
        for (name, incarnation), record in sorted(shown.records.assigned.items())
        if record.state == "active"
    }


def _sampled_rows(record: LagRecord, readers: Sequence[OffsetRow]) -> Iterator[OffsetRow]:
    """Yield the rows of a topic: of each partition that somebody reads, or has read."""
    waits, least_waits = record.known_seconds or (None,) * len(record.lag), record.least_waits
    columns = (record.known_end, record.known_lag, waits, record.committed, record.racks, readers)
    for number, (end, lag, wait, committed, racks, reader) in enumerate(zip(*columns, strict=True)):
        if reader.consumer_id is None and committed < 0:
            continue
        yield reader._replace(
            topic=record.topic,
            partition=number,
            current_offset=committed if committed >= 0 else None,
            log_end_offset=end,
            lag=lag,
            local=None if reader.rack is None or not racks else reader.rack in racks,
            seconds=None if wait is None else round(wait, 1),
            seconds_lower_bound=None if wait is None else number in least_waits,
        )


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def offset_table(rows: Iterable[OffsetRow], extras: Mapping[str, list[str]]) -> Table:
    """Return the rows as a table.

    Args:
        rows: the rows.
        extras: further columns by name, each with a text for every row.
    """
    columns = [(name, name in NUMBERS) for name in TABLE_COLUMNS]
    table = borderless_table(*columns, *((name, False) for name in extras), least=LEAST)
    for index, row in enumerate(rows):
        table.add_row(*row.texts(), *(column[index] for column in extras.values()))
    return table


def print_offset_rows(rows: Iterable[OffsetRow]) -> None:
    """Print the rows as a table."""
    stdout_console().print(offset_table(rows, {}))


def write_csv(rows: Iterable[OffsetRow]) -> None:
    """Write the rows to standard output as CSV in UTF-8, with the columns in the first line.

    A field without a value is empty.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            "" if value is None else cell(value) if isinstance(value, str) else _text(value)
            for value in row
        )
    click.echo(file.getvalue().encode(), nl=False)
