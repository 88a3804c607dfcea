"""Trace: samples of the ends of a group's partitions, as JSON lines or CSV.

Three forms of a line, which may be mixed:
- a record of `levelwind.lag`: `{"key": ["lag", group, topic], "value": {..}}`, as
  `levelwind record` writes it; `payload` may stand for `value`, and key and value may also be texts
  that hold their JSON, as `kcat -J` prints them; or key, tab, value (`kafka-console-consumer` with
  `print.key=true`). The record gives ends, lag at the start, replica racks and their changes.
- `{"at": ms, "topic": name, "partition": n, "end": offset}`, with `lag` where it is known.
- CSV: the same names in the first line, then one line a sample.

Guarantees: records arrive evenly between two samples of a partition, none before its first and none
after its last. Where an end went back (the topic was re-created) counting begins again.
Tombstones and the members' speeds, which `levelwind.lag` holds too, are skipped.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.protocol.declared.fields import Name, Time, Whole
from levelwind.assignors.protocol.declared.json_form import converted
from levelwind.assignors.protocol.partition_ranges import MAX_PARTITIONS, WireError
from levelwind.assignors.protocol.records import (
    LagRecord,
    Rejection,
    SpeedRecord,
    Tombstone,
    decode,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from levelwind.assignors.problem.columns import Floats, Longs

REQUIRED_COLUMNS = ("at", "topic", "partition", "end")
NEVER = -1
"""Time or end of a partition that was never read, in a lag record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The samples of a trace; times are milliseconds since the epoch."""

    ends: Mapping[str, Mapping[int, list[tuple[int, int]]]]
    """Time and end by topic and partition, ascending in time; an end never goes back."""
    lags: Mapping[str, Mapping[int, int]]
    """Lag at the first sample, by topic and partition: that of the first sample that knows it, less
    what has arrived until then."""
    racks: Mapping[str, list[tuple[int, tuple[tuple[str, ...], ...]]]]
    """Layouts by topic: the time of each change, and the replica racks by partition from then
    on."""
    ends_regressed: int
    """Number of samples whose end was below the previous one."""

    @property
    def begin(self) -> int:
        """Time of the first sample of a partition with arrivals.

        The first sample of an idle partition may be weeks older.
        """
        return min(samples[0][0] for samples in self._busy())

    @property
    def end(self) -> int:
        """Time of the last sample of a partition with arrivals."""
        return max(samples[-1][0] for samples in self._busy())

    def _busy(self) -> list[list[tuple[int, int]]]:
        return [samples for _, _, samples in _all(self) if samples[-1][1] > samples[0][1]]

    @property
    def arrived(self) -> int:
        """Number of records that arrive."""
        return sum(samples[-1][1] - samples[0][1] for _, _, samples in _all(self))

    def partitions(self) -> dict[str, int]:
        """Number of partitions by topic."""
        return {topic: max(numbers) + 1 for topic, numbers in self.ends.items()}


@dataclass(slots=True, kw_only=True)
class _TraceReader:
    """Samples read so far."""

    group: str | None
    ends: dict[str, dict[int, dict[int, int]]] = field(default_factory=lambda: defaultdict(dict))
    lags: dict[str, dict[int, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))
    racks: dict[str, dict[int, tuple[tuple[str, ...], ...]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    groups: set[str] = field(default_factory=set)

    def record(self, record: LagRecord) -> None:
        self.groups.add(record.group)
        if self.group is not None and record.group != self.group:
            return
        times = record.end_read_at or (record.at,) * len(record.end)
        for partition, (at, end, lag) in enumerate(
            zip(times, record.end, record.known_lag, strict=True)
        ):
            if NEVER not in {at, end}:
                self.sample(at, record.topic, partition, end, lag)
        if any(record.racks):
            self.racks[record.topic][record.at] = tuple(
                tuple(sorted(set(racks))) for racks in record.racks
            )

    def sample(self, at: int, topic: str, partition: int, end: int, lag: int | None) -> None:
        self.ends[topic].setdefault(partition, {})[at] = end
        first = self.lags[topic].get(partition)
        if lag is not None and (first is None or at < first[0]):
            self.lags[topic][partition] = (at, lag)


def read_trace(lines: Iterable[bytes], group: str | None = None) -> Trace:
    """Read a trace.

    Args:
        lines: lines of the file.
        group: the group whose lag samples count; may be None if the trace has one group.

    Raises:
        ProblemError: a line has none of the forms (the message has its number), or the trace has
            too few samples.
    """
    reader = _TraceReader(group=group)
    columns: list[str] | None = None
    for number, raw in enumerate(lines, start=1):
        try:
            text = raw.decode().strip().removeprefix("\ufeff")
            if not text:
                continue
            if text[0] in "{[":
                _json_line(reader, text)
            elif columns is None:
                columns = _header(text)
            else:
                _sample(reader, _row(columns, text))
        except (WireError, UnicodeDecodeError) as error:
            raise ProblemError(f"trace, line {number}: {error}") from error
    if group is None and len(reader.groups) > 1:
        raise ProblemError(
            f"trace: it has the lag of {len(reader.groups)} groups; choose one with --group: "
            f"{', '.join(sorted(reader.groups))}"
        )
    if group is not None and not reader.ends:
        raise ProblemError(
            f"trace: no lag of group {group!r};"
            f" it has {', '.join(sorted(reader.groups)) or 'no group'}"
        )
    return _checked(reader)


def _json_line(reader: _TraceReader, text: str) -> None:
    key, tab, value = text.partition("\t")
    if tab and text[0] == "[":
        _lag(reader, key.encode(), None if value == "null" else value.encode())
        return
    fields = _loaded(text)
    if not isinstance(fields, dict):
        raise WireError("neither an object nor a key, a tab and a value")
    if "key" in fields:
        _lag(reader, _bytes(fields["key"]), _bytes(fields.get("value", fields.get("payload"))))
    else:
        _sample(reader, fields)


def _lag(reader: _TraceReader, key: bytes | None, value: bytes | None) -> None:
    record = decode("lag", key, value)
    if isinstance(record, Rejection):
        raise WireError(f"no record of lag: {record.reason}")
    if isinstance(record, LagRecord):
        reader.record(record)
    elif not isinstance(record, Tombstone | SpeedRecord):
        raise WireError("no record of lag")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error


def _bytes(given: object) -> bytes | None:
    """Bytes of a key or value given as JSON or as the text of JSON."""
    if given is None:
        return None
    return (given if isinstance(given, str) else json.dumps(given)).encode()


class _Sample(msgspec.Struct):
    """One sample of the end of a partition."""

    at: Time
    topic: Name
    partition: Annotated[int, msgspec.Meta(ge=0, lt=MAX_PARTITIONS)]
    end: Whole
    lag: Whole | None = None


def _sample(reader: _TraceReader, fields: dict[str, Any]) -> None:
    read = converted(fields, _Sample, "sample")
    reader.sample(read.at, read.topic, read.partition, read.end, read.lag)


def _header(text: str) -> list[str]:
    columns = [name.strip() for name in next(csv.reader(StringIO(text)))]
    missing = [name for name in REQUIRED_COLUMNS if name not in columns]
    if missing:
        raise WireError(
            f"neither JSON nor a CSV header with {', '.join(REQUIRED_COLUMNS)}:"
            f" {', '.join(missing)} is missing"
        )
    return columns


def _row(columns: list[str], text: str) -> dict[str, Any]:
    cells = [cell.strip() for cell in next(csv.reader(StringIO(text)))]
    if len(cells) != len(columns):
        raise WireError(f"{len(cells)} values for {len(columns)} columns")
    row: dict[str, Any] = dict(zip(columns, cells, strict=True))
    for name in ("at", "partition", "end", "lag"):
        if (cell := row.get(name)) is not None:
            row[name] = (
                int(cell)
                if cell.isascii() and cell.isdecimal() and len(cell) < 20
                else cell or None
            )
    return row


def _checked(reader: _TraceReader) -> Trace:
    ends_regressed = 0
    ends: dict[str, dict[int, list[tuple[int, int]]]] = {}
    lags: dict[str, dict[int, int]] = {}
    for topic, partitions in sorted(reader.ends.items()):
        for partition, samples in sorted(partitions.items()):
            times = sorted(samples)
            steps = np.diff(
                np.array([samples[at] for at in times], dtype=np.int64), prepend=samples[times[0]]
            )
            ends_regressed += int(np.count_nonzero(steps < 0))
            rising = np.cumsum(np.maximum(steps, 0)).tolist()
            ends.setdefault(topic, {})[partition] = list(zip(times, rising, strict=True))
            if partition in (first_lags := reader.lags.get(topic, {})):
                at, lag = first_lags[partition]
                lags.setdefault(topic, {})[partition] = max(lag - rising[times.index(at)], 0)
    trace = Trace(
        ends=ends,
        lags=lags,
        racks={
            topic: _changes(sorted(layouts.items()))
            for topic, layouts in sorted(reader.racks.items())
        },
        ends_regressed=ends_regressed,
    )
    if all(len(samples) == 1 for _, _, samples in _all(trace)):
        raise ProblemError(
            "trace: it needs samples of a partition at two times at least; levelwind.lag keeps only"
            " the last one of each topic: `levelwind record` writes what is published from now on"
        )
    if not trace.arrived:
        raise ProblemError("trace: no record arrives between its first and its last sample")
    return trace


def _changes(
    layouts: Iterable[tuple[int, tuple[tuple[str, ...], ...]]],
) -> list[tuple[int, tuple[tuple[str, ...], ...]]]:
    found: list[tuple[int, tuple[tuple[str, ...], ...]]] = []
    for at, racks in layouts:
        if not found or found[-1][1] != racks:
            found.append((at, racks))
    return found


class TraceArrivals:
    """Arrivals of a trace."""

    def __init__(self, trace: Trace, topics: Mapping[str, tuple[int, int]], tick: float) -> None:
        """Make the arrivals.

        Args:
            trace: the samples.
            topics: first partition in the world and number of partitions, by topic that counts.
            tick: seconds of one tick.
        """
        self._tick = tick * 1000
        self._begin = trace.begin
        self._partitions = sum(count for _, count in topics.values())
        self._samples: list[tuple[int, Floats, Floats]] = [
            (
                topics[topic][0] + partition,
                np.array([at for at, _ in samples], dtype=np.float64),
                np.array([end for _, end in samples], dtype=np.float64),
            )
            for topic, partition, samples in _all(trace)
            if topic in topics
        ]

    def block(self, first: int, ticks: int) -> Longs:
        """Whole records of a block of ticks; a partly arrived record comes with a later tick."""
        edges = self._begin + np.arange(first, first + ticks + 1) * self._tick
        records = np.zeros((ticks, self._partitions), dtype=np.int64)
        for partition, at, end in self._samples:
            records[:, partition] = np.diff(np.floor(np.interp(edges, at, end)).astype(np.int64))
        return records


def _all(trace: Trace) -> Iterator[tuple[str, int, list[tuple[int, int]]]]:
    for topic, partitions in trace.ends.items():
        for partition, samples in partitions.items():
            yield topic, partition, samples
