"""Image of levelwind's topics: the newest record of each key, as compaction leaves them.

A daemon that stands by keeps it up to date, so that it can lead at once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import Rejection, Tombstone
from levelwind.assignors.protocol.unread_lag import UnreadLag

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Key, Record
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage

MOST_TOMBSTONES = 20_000
"""Tombstones to keep. Brokers delete them after a day; what the oldest ended has ended long ago."""


class LogImage:
    """The newest records and tombstones, in the order in which they were written."""

    def __init__(self, most_tombstones: int = MOST_TOMBSTONES) -> None:
        self._newest: dict[tuple[TopicKind, int, Key], Record | Tombstone | UnreadLag] = {}
        """By topic, partition, and the record's own key."""
        self._tombstones: OrderedDict[tuple[TopicKind, int, Key], None] = OrderedDict()
        self._most_tombstones = most_tombstones
        self.lags = 0
        """The number of records of lag."""

    def add(self, read: ConsumedRecord | UnreadMessage) -> None:
        """Take in the next record of a partition.

        Each partition has records of its own of the keys that all partitions have.
        """
        key = (read.kind, read.partition, read.record.key)
        former = self._newest.pop(key, None)  # the newest comes last
        self._newest[key] = read.record
        if read.kind == "lag":
            self.lags += _is_present(read.record) - _is_present(former)
        if self._tombstones:
            self._tombstones.pop(key, None)
        if isinstance(read.record, Tombstone):
            self._tombstones[key] = None
            if len(self._tombstones) > self._most_tombstones:
                oldest, _ = self._tombstones.popitem(last=False)
                del self._newest[oldest]

    @property
    def records(self) -> tuple[tuple[TopicKind, Record | Tombstone], ...]:
        """The records, each with its topic; a sample that cannot be read is left out."""
        return tuple(
            (kind, read)
            for (kind, _, _), record in self._newest.items()
            if not isinstance(
                read := record.read() if isinstance(record, UnreadLag) else record, Rejection
            )
        )


def _is_present(record: Record | Tombstone | UnreadLag | None) -> bool:
    return record is not None and not isinstance(record, Tombstone)
