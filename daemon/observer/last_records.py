"""Last records: the offset at which the readable records of a log end.

The end of a log may hold control records and aborted records, which no consumer is given: a
transaction leaves a marker, and an aborted one its records too. A consumer whose client counts from
the last record that it was given stays below them for ever, with nothing left to read. Therefore,
once the stable end of a partition has not moved for `STILL_SAMPLES` samples, its last offsets are
read as a read_committed consumer would read them, and the result holds until the end moves. The
last `WINDOWS[0]` offsets are read first, then, while no record is found, the next larger window;
after the last window the end of the log is taken as the end of its records.

A client fetches whole batches: a read costs about one batch a partition, and at most
`PARTITIONS_AT_ONCE` partitions are read with one sample. A partition whose log ends with a record
waits twice as long the next time, up to `MAX_STILL_SAMPLES` samples; a partition with markers never
waits longer than `STILL_SAMPLES`. Topics without transactions cost next to nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from daemon.kafka import clients
from daemon.observer.cluster_state import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import Consumer

    from daemon.observer.cluster_probe import Partition

LogKey: TypeAlias = "tuple[str, int]"
"""A topic id and a partition number."""

STILL_SAMPLES = 5
"""Samples without a move of the end after which the last records are read."""
MAX_STILL_SAMPLES = 20
"""The most such samples, for a partition whose log ends with a record."""
WINDOWS = (8, 64, 512, 4096)
"""Offsets before the end from which one read after the other starts."""
PARTITIONS_AT_ONCE = 64
"""The most partitions that are read with one sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The end of one partition's log, as far as it is known."""

    end: int
    """Stable end of the last sample."""
    still: int = 0
    """Samples since the end moved."""
    still_needed: int = STILL_SAMPLES
    """Samples without a move after which the last records are read."""
    windows_read: int = 0
    """Windows read since the end moved."""
    data_end: int = UNKNOWN
    """Offset after the last record; UNKNOWN before it was found."""

    def sampled(self, end: int) -> LogTail:
        """The tail after one more sample."""
        if end == self.end:
            return replace(self, still=min(self.still + 1, MAX_STILL_SAMPLES))
        return LogTail(end=end, still_needed=self.still_needed)

    @property
    def due(self) -> bool:
        """Whether the last records have to be read."""
        return (
            self.data_end == UNKNOWN
            and self.windows_read < len(WINDOWS)
            and self.still >= self.still_needed
        )

    def start(self, begin: int) -> int:
        """First offset to read; `begin` is the begin offset of the log."""
        return max(self.end - WINDOWS[self.windows_read], begin)

    def after_read(self, last: int | None, begin: int) -> LogTail:
        """The tail after a read that found the last record at offset `last`, or no record."""
        if last is not None:
            plain = last + 1 >= self.end
            still_needed = min(2 * self.still_needed, MAX_STILL_SAMPLES) if plain else STILL_SAMPLES
            return replace(self, data_end=min(last + 1, self.end), still_needed=still_needed)
        if self.start(begin) <= begin:  # the log holds no record at all
            return replace(self, data_end=begin, still_needed=STILL_SAMPLES)
        return replace(self, windows_read=self.windows_read + 1)


class LogTails:
    """Tails of all sampled partitions, and the consumer that reads them.

    Only the samples' job uses the tails.
    """

    def __init__(self, client_config: Mapping[str, Any]) -> None:
        self._config = client_config
        self._consumer: Consumer | None = None
        self._tails: dict[LogKey, LogTail] = {}

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def sampled(self, ends: Mapping[LogKey, int]) -> None:
        """Apply one sample: the stable ends that could be read."""
        self._tails = {
            key: tail.sampled(end)
            if (tail := self._tails.get(key)) is not None
            else LogTail(end=end)
            for key, end in ends.items()
        }

    def data_end(self, key: LogKey) -> int:
        """Offset after the last record if it is known to be below the stable end, else UNKNOWN."""
        tail = self._tails.get(key)
        return tail.data_end if tail is not None and tail.data_end != tail.end else UNKNOWN

    def read_due(
        self, partitions: Mapping[LogKey, Partition], begins: Mapping[LogKey, int], timeout: float
    ) -> None:
        """Read the last records of the partitions that are due, for at most `timeout` seconds.

        A partition that could not be read in that time is read with a later sample.
        """
        due = [key for key, tail in self._tails.items() if tail.due and key in partitions][
            :PARTITIONS_AT_ONCE
        ]
        if not due:
            return
        starts = {partitions[key]: self._tails[key].start(begins.get(key, 0)) for key in due}
        found = last_records(self._reader(), starts, timeout)
        for key in due:
            if partitions[key] in found:
                self._tails[key] = self._tails[key].after_read(
                    found[partitions[key]], begins.get(key, 0)
                )
            else:  # to the end of the queue
                self._tails[key] = self._tails.pop(key)

    def _reader(self) -> Consumer:
        if self._consumer is None:
            self._consumer = clients.consumer(
                self._config,
                {
                    "group.id": "levelwind-observer",  # never joined, never committed to
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": 20,
                    "fetch.message.max.bytes": 65536,  # a larger batch still arrives whole
                    "queued.max.messages.kbytes": 16384,
                },
            )
        return self._consumer


def last_records(
    consumer: Consumer, starts: Mapping[Partition, int], timeout: float
) -> dict[Partition, int | None]:
    """Offset of the last record at or after each start, or None for no record.

    Partitions that could not be read to their end in `timeout` seconds are left out.
    """
    until = time.monotonic() + timeout
    last: dict[Partition, int | None] = {}
    at_end: dict[Partition, int | None] = {}
    try:
        consumer.assign(
            [TopicPartition(*partition, offset) for partition, offset in starts.items()]
        )
        while len(at_end) < len(starts) and (left := until - time.monotonic()) > 0:
            for message in consumer.consume(1000, min(left, 0.1)):
                partition = (message.topic(), message.partition())
                if message.error() is None:
                    last[partition] = message.offset()
                elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's name for it
                    at_end[partition] = last.get(partition)
    finally:
        _stop_fetching(consumer)
    return {partition: offset for partition, offset in at_end.items() if partition in starts}


def _stop_fetching(consumer: Consumer) -> None:
    """Unassign all partitions, so that the consumer fetches nothing more."""
    try:
        consumer.unassign()
    except KafkaException:  # the client is ending
        return


def partitions_by_id(topics: Iterable[tuple[str, str, int]]) -> dict[LogKey, Partition]:
    """Partitions by topic name, keyed by topic id, from (id, name, partition count) of topics."""
    return {(id_, number): (name, number) for id_, name, count in topics for number in range(count)}
