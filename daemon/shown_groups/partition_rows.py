"""Rows of the partitions of one group, with what is to be known beside their lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.records import EndKind, LagRecord
    from levelwind.daemon.shown_groups.shown_group import ShownGroup


END_TEXTS: Mapping[EndKind, str] = {"stable": "stable offset", "high": "high watermark"}
"""What a lag record's `end` is, by its kind."""


def partition_rows(shown: ShownGroup) -> list[dict[str, object]]:
    """One row for each partition: owner, offsets, lag and racks; its planned owner if watched."""
    owners, planned = shown.measured.owners, shown.planned
    return [
        {
            "topic": topic,
            "partition": number,
            "owner": owners.get((topic, number)),
            **({} if planned is None else {"planned": planned.get((topic, number))}),
            "committed": record.committed[number] if record.committed[number] >= 0 else None,
            "end": ends[number],
            "lag": lags[number],
            "note": notes[number],
            "racks": list(record.racks[number]),
            "at": record.at,
        }
        for topic, record in sorted(shown.measured.lags.items())
        for lags, ends, notes in ((record.known_lag, record.known_end, lag_notes(record)),)
        for number in range(len(lags))
    ]


def lag_notes(record: LagRecord) -> list[str | None]:
    """What is to be known beside the lag of each partition; None: nothing."""
    marks = _Marks(
        reset=frozenset(record.reset),
        unknown=record.unknown_partitions,
        stale=frozenset(record.stale),
        upper_bound=frozenset(record.lag_upper_bound),
        least_wait=record.least_waits,
        unclaimed="left" if record.left else "unclaimed",
    )
    return [_lag_note(record, marks, number) for number in range(len(record.lag))]


class _Marks(NamedTuple):
    """Partitions of a lag record that it names for a reason."""

    reset: frozenset[int]
    unknown: frozenset[int]
    stale: frozenset[int]
    upper_bound: frozenset[int]
    least_wait: frozenset[int]
    unclaimed: str
    """The word for partitions that nobody claims."""

    @property
    def bounds(self) -> tuple[tuple[str, frozenset[int]], ...]:
        """The partitions of which a figure is a bound, by the words for that."""
        return (
            ("upper bound: may count aborted records", self.upper_bound),
            ("waited at least this long", self.least_wait),
        )


def _lag_note(record: LagRecord, marks: _Marks, number: int) -> str | None:
    unread = record.end[number] < 0
    if record.unclaimed is not None and record.unclaimed[number] >= 0:
        waiting = "not known" if unread else f"{record.unclaimed[number]:,} records"
        policy = " by the reset policy" if record.committed[number] < 0 else ""
        return f"{marks.unclaimed}: {waiting}{policy}"
    if number in marks.reset:
        return "commit beyond the log: by the reset policy"
    if unread:
        return "not known: the log end could not be read"
    if number in marks.unknown:
        return "not known: the log end was last read before the commit"
    if number in marks.stale and record.committed_at[number] <= record.at:
        return f"commit beyond the {END_TEXTS[record.end_kind]}"
    if record.committed[number] < 0 and record.lag[number]:
        return "no commit: by the reset policy"
    bounds = [text for text, marked in marks.bounds if number in marked]
    return "; ".join(bounds) or None
