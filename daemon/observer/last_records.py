"""Last records: the offset at which the readable records of a log end.

The end of a log may hold control records and aborted records, which no consumer is given: a
transaction leaves a marker, and an aborted one its records too. A consumer whose client counts from
the last record that it was given stays below them for ever, with nothing left to read. Therefore,
once the stable end of a partition has not moved for `STILL_SAMPLES` samples, its last offsets are
read as a read_committed consumer would read them, and the result holds until the end moves. The
last `WINDOWS[0]` offsets are read first, then, while no record is found, the next larger window;
after the last window the end of the log is taken as the end of its records.

The same reading shows which offsets between the records hold none: its *gaps*. Where there are any,
or a transaction was seen open, the last `EXAMINED` offsets are examined for gaps, and later only
what has come since. A range of the log keeps its gaps for ever.

A client fetches whole batches: a read costs about one batch a partition, and at most
`PARTITIONS_AT_ONCE` partitions are read with one sample, those first that stood still longest. A
partition whose log ends with a record waits twice as long the next time, up to `MAX_STILL_SAMPLES`
samples; a partition with markers never waits longer than `STILL_SAMPLES`. Where a read failed, as
without a right to the topic, the same end is read again after `MAX_STILL_SAMPLES`. Topics without
transactions cost next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from levelwind.daemon.observer.cluster_state import UNKNOWN
from levelwind.daemon.observer.log_reading import ObserverConsumer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.daemon.observer.cluster_probe import Partition

LogKey: TypeAlias = "tuple[str, int]"
"""A topic id and a partition number."""

STILL_SAMPLES = 5
"""Samples without a move of the end after which the last records are read."""
MAX_STILL_SAMPLES = 20
"""The most such samples, for a partition whose log ends with a record."""
WINDOWS = (8, 64, 512, 4096)
"""Offsets before the end from which one read after the other starts."""
EXAMINED = 4096
"""Offsets before the end that are examined for gaps; half as many after each reading that took too
long."""
FEWEST_EXAMINED = 256
MAX_GAPS = 32
"""The most gaps that are kept of a partition: the newest."""
PARTITIONS_AT_ONCE = 64
"""The most partitions that are read with one sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The end of one partition's log, as far as it is known."""

    end: int
    """Stable end of the last sample."""
    still: int = 0
    """Samples since the end moved; fewer after a read that did not come to the end."""
    still_needed: int = STILL_SAMPLES
    """Samples without a move after which the last records are read."""
    windows_read: int = 0
    """Windows read since the end moved."""
    data_end: int = UNKNOWN
    """Offset after the last record; UNKNOWN before it was found."""
    has_gaps: bool = False
    """Whether a gap or an open transaction was ever seen."""
    gaps: tuple[int, ...] = ()
    """First and end offset of what was examined, then those of each gap in it; empty: nothing."""
    examine: int = EXAMINED
    """Offsets before the end to examine."""

    def sampled(self, end: int, *, open_transaction: bool = False) -> LogTail:
        """The tail after one more sample; `open_transaction`: whether the log goes on beyond."""
        if end == self.end:
            still = min(self.still + 1, MAX_STILL_SAMPLES)
            has_gaps = self.has_gaps or open_transaction
            if still == self.still and has_gaps == self.has_gaps:
                return self  # most partitions of a cluster at rest
            return replace(self, still=still, has_gaps=has_gaps)
        if end < self.end:  # another log, or one that lost records
            return LogTail(end=end, has_gaps=open_transaction)
        return LogTail(
            end=end,
            still_needed=self.still_needed,
            has_gaps=self.has_gaps or open_transaction,
            gaps=self.gaps,
        )

    @property
    def searching(self) -> bool:
        """Whether the last record is still to be found."""
        return self.data_end == UNKNOWN and self.windows_read < len(WINDOWS)

    @property
    def examining(self) -> bool:
        """Whether the last offsets are still to be examined for gaps."""
        examined = self.gaps[1] if self.gaps else UNKNOWN
        return self.has_gaps and examined < self.end and self.examine >= FEWEST_EXAMINED

    @property
    def due(self) -> bool:
        """Whether the last records have to be read."""
        return self.still >= self.still_needed and (self.searching or self.examining)

    @property
    def known_gaps(self) -> tuple[int, ...]:
        """The gaps as a sample says them; empty where none was ever seen."""
        return (self.gaps or (self.end, self.end)) if self.has_gaps else ()

    def start(self, begin: int) -> int:
        """First offset to read; `begin` is the begin offset of the log."""
        if self.searching:
            return max(self.end - WINDOWS[self.windows_read], begin)
        examined = self.gaps[1] if self.gaps else UNKNOWN
        return max(self.end - self.examine, examined, begin)

    def after_read(self, last: int | None, begin: int) -> LogTail:
        """The tail after a read that found the last record at offset `last`, or no record."""
        if last is not None:
            plain = last + 1 >= self.end
            longer = min(2 * self.still_needed, MAX_STILL_SAMPLES)
            still_needed = longer if plain and not self.has_gaps else STILL_SAMPLES
            return replace(
                self,
                data_end=min(last + 1, self.end),
                still_needed=still_needed,
                has_gaps=self.has_gaps or not plain,
            )
        start, windows_read = self.start(begin), self.windows_read + 1
        empty = replace(self, has_gaps=start < self.end)
        if start <= begin or windows_read == len(WINDOWS):
            empty = replace(empty, gaps=(start, self.end, start, self.end))
        if start <= begin:  # the log holds no record at all
            return replace(empty, data_end=begin, still_needed=STILL_SAMPLES)
        return replace(empty, windows_read=windows_read)

    def after_reading(self, offsets: Sequence[int], begin: int) -> LogTail:
        """The tail after a read that found records at some offsets from `start` on, ascending."""
        start = self.start(begin)
        between = gaps_between(start, offsets, self.end)
        if self.searching:
            seen = replace(self, has_gaps=self.has_gaps or bool(between))
            return seen.after_read(offsets[-1] if offsets else None, begin)
        if self.gaps and start == self.gaps[1]:
            start, between = self.gaps[0], [*self.gaps[2:], *between]
        while len(between) > 2 * MAX_GAPS:
            _, start, *between = between
        return replace(self, gaps=(start, self.end, *between))

    def unread(self) -> LogTail:
        """The tail after a read that did not come to the end: others are read before it again."""
        waiting = replace(self, still=self.still_needed - MAX_STILL_SAMPLES)
        return waiting if self.searching else replace(waiting, examine=self.examine // 2)


def gaps_between(start: int, offsets: Sequence[int], end: int) -> list[int]:
    """First and end offset of each gap from `start` to `end`, where records have these offsets."""
    records = [start - 1, *(offset for offset in offsets if offset < end), end]
    gaps: list[int] = []
    for record, following in pairwise(records):
        if following > record + 1:
            gaps += [record + 1, following]
    return gaps


class LogTails:
    """Tails of all sampled partitions, and the consumer that reads them.

    Only the samples' job uses the tails.
    """

    def __init__(self, client_config: Mapping[str, Any]) -> None:
        # A larger batch still arrives whole.
        largest = {"fetch.message.max.bytes": 65536}
        self._reader = ObserverConsumer(client_config, "read_committed", **largest)
        self._tails: dict[LogKey, LogTail] = {}

    def close(self) -> None:
        """Close the consumer."""
        self._reader.close()

    def sampled(self, ends: Mapping[LogKey, int], highs: Mapping[LogKey, int]) -> None:
        """Apply one sample: the stable ends that could be read, and the high watermarks."""
        self._tails = {
            key: self._tails.get(key, LogTail(end=end, still=-1)).sampled(
                end, open_transaction=highs.get(key, end) > end
            )
            for key, end in ends.items()
        }

    def data_end(self, key: LogKey) -> int:
        """Offset after the last record if it is known to be below the stable end, else UNKNOWN."""
        tail = self._tails.get(key)
        return tail.data_end if tail is not None and tail.data_end != tail.end else UNKNOWN

    def gaps(self, key: LogKey) -> tuple[int, ...]:
        """Offsets without a record, as `OffsetsRecord` has them; empty where none was seen."""
        tail = self._tails.get(key)
        return () if tail is None else tail.known_gaps

    def read_due(
        self, partitions: Mapping[LogKey, Partition], begins: Mapping[LogKey, int], timeout: float
    ) -> None:
        """Read the last records of the partitions that are due, for at most `timeout` seconds.

        A partition that could not be read to its end is tried again with a later sample.
        """
        due = [key for key, tail in self._tails.items() if tail.due and key in partitions]
        due = nlargest(PARTITIONS_AT_ONCE, due, key=lambda key: self._tails[key].still)
        if not due:
            return
        starts = {partitions[key]: self._tails[key].start(begins.get(key, 0)) for key in due}
        found = record_offsets(self._reader, starts, timeout)
        for key in due:
            if partitions[key] in found:
                self._tails[key] = self._tails[key].after_reading(
                    found[partitions[key]], begins.get(key, 0)
                )
            else:
                self._tails[key] = self._tails[key].unread()


def record_offsets(
    reader: ObserverConsumer, starts: Mapping[Partition, int], timeout: float
) -> dict[Partition, list[int]]:
    """Offsets of the records at or after each start, ascending.

    Partitions that could not be read to their end are left out.
    """
    read: dict[Partition, list[int]] = {partition: [] for partition in starts}
    at_end: dict[Partition, list[int]] = {}
    for partition, message in reader.records_to_ends(starts, timeout):
        if message is None:
            at_end[partition] = read[partition]
        else:
            read[partition].append(message.offset())
    return at_end


def partitions_by_id(topics: Iterable[tuple[str, str, int]]) -> dict[LogKey, Partition]:
    """Partitions by topic name, keyed by topic id, from (id, name, partition count) of topics."""
    return {(id_, number): (name, number) for id_, name, count in topics for number in range(count)}
