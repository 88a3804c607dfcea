"""Rows of partitions with the columns of `kafka-consumer-groups --describe`, and a few more.

There is a row for each partition that somebody owns or has committed, and for each member that owns
nothing, of classic groups, of those of KIP-848, of managed and of empty ones alike.
"""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, NamedTuple

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
    topic: str | None
    partition: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None
    rack: str | None
    local: bool | None
    """Whether the member's rack holds a replica."""
    seconds: float | None
    """For how long the next record has waited."""

    def texts(self) -> list[str]:
        """Return the fields as the table shows them, `-` for nothing."""
        return [_text(value) for value in self]


COLUMNS = tuple(name.upper().replace("_", "-") for name in OffsetRow._fields)
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


class _Consumer(NamedTuple):
    """A member as a row names it."""

    consumer_id: str
    host: str | None
    client_id: str | None


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
    known = described or {}
    consumers = _consumers(shown, known)
    owners, racks = shown.measured.owners, shown.measured.racks
    rows: list[OffsetRow] = []
    for topic, record in sorted(shown.measured.lags.items()):
        readers = [owners.get((topic, number)) for number in range(len(record.lag))]
        rows += _sampled_rows(shown.name, record, readers, consumers, racks)
    for (topic, number), owner in sorted(owners.items()):
        if topic not in shown.records.lags:
            consumer = consumers.get(owner, _Consumer(owner, None, None))
            rack = racks.get(owner)
            rows.append(_bare(shown.name, consumer, rack, topic=topic, partition=number))
    for name in sorted(consumers.keys() - set(owners.values())):
        rows.append(_bare(shown.name, consumers[name], racks.get(name)))
    return largest_lag_first(rows) if by_lag else rows


def largest_lag_first(rows: Iterable[OffsetRow]) -> list[OffsetRow]:
    """Return rows by their lag; those without any come last."""
    return sorted(rows, key=lambda row: -1 if row.lag is None else row.lag, reverse=True)


def _consumers(shown: ShownGroup, known: Mapping[str, DescribedMember]) -> dict[str, _Consumer]:
    if shown.records.watched:
        return {
            name: _Consumer(member.id, member.host or None, member.client_id or None)
            for name, member in known.items()
        }
    return {
        instance: _Consumer(f"{instance}/{incarnation}", None, instance)
        for (instance, incarnation), record in sorted(shown.records.assigned.items())
        if record.state == "active"
    }


def _sampled_rows(
    group: str,
    record: LagRecord,
    readers: Sequence[str | None],
    consumers: Mapping[str, _Consumer],
    racks: Mapping[str, str | None],
) -> Iterator[OffsetRow]:
    """Yield the rows of a topic: of each partition that somebody reads, or has read."""
    waits = record.known_seconds or (None,) * len(record.lag)
    known = zip(record.known_end, record.known_lag, waits, record.committed, readers, strict=True)
    for number, (end, lag, wait, committed, reader) in enumerate(known):
        if reader is None and committed < 0:
            continue
        consumer, rack = consumers.get(reader or ""), racks.get(reader or "")
        replicas = record.racks[number]
        yield OffsetRow(
            group=group,
            topic=record.topic,
            partition=number,
            current_offset=committed if committed >= 0 else None,
            log_end_offset=end,
            lag=lag,
            consumer_id=consumer.consumer_id if consumer else reader,
            host=consumer.host if consumer else None,
            client_id=consumer.client_id if consumer else None,
            rack=rack,
            local=None if rack is None or not replicas else rack in replicas,
            seconds=None if wait is None else round(wait, 1),
        )


def _bare(
    group: str,
    consumer: _Consumer,
    rack: str | None,
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> OffsetRow:
    """Return the row of a member without partitions, or of a partition without a sample of lag."""
    return OffsetRow(
        group=group,
        topic=topic,
        partition=partition,
        current_offset=None,
        log_end_offset=None,
        lag=None,
        consumer_id=consumer.consumer_id,
        host=consumer.host,
        client_id=consumer.client_id,
        rack=rack,
        local=None,
        seconds=None,
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
    columns = [(name, name in NUMBERS) for name in COLUMNS]
    table = borderless_table(*columns, *((name, False) for name in extras), least=LEAST)
    for index, row in enumerate(rows):
        table.add_row(*row.texts(), *(column[index] for column in extras.values()))
    return table


def print_offset_rows(rows: Iterable[OffsetRow]) -> None:
    """Print the rows as a table."""
    stdout_console().print(offset_table(rows, {}))


def write_csv(rows: Iterable[OffsetRow]) -> None:
    """Write the rows to standard output as CSV, with the columns in the first line.

    A field without a value is empty.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            "" if value is None else cell(value) if isinstance(value, str) else _text(value)
            for value in row
        )
