"""Record tap: hands the records that a daemon reads to another thread, the newest of each key.

The thread that reads the topics only enters a record into a table: a key that nobody has taken yet
is replaced. So neither the reader nor the planner notices how long the other thread takes, or
whether it takes anything at all.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from levelwind.daemon.kafka.topic_reader import ConsumedRecord, UnreadMessage

MOST_TAPPED = 1_000_000
"""Records that wait at most; beyond that new keys are dropped until the table is taken."""


class RecordTap:
    """The newest records since the last `take`; one thread adds, another takes."""

    def __init__(self, most: int = MOST_TAPPED) -> None:
        self._waiting: dict[Hashable, ConsumedRecord | UnreadMessage] = {}
        self._most = most
        self._lock = threading.Lock()
        self._replaced = False
        self.dropped = 0
        """Records that found no room."""

    def on_record(self, read: ConsumedRecord | UnreadMessage) -> None:
        """Enter a record behind all others, in place of an older one of its key.

        The order matters: the shards of a record that was cut come before its head.
        """
        key = (read.kind, read.partition, read.record.key)
        with self._lock:
            if self._waiting.pop(key, None) is not None or len(self._waiting) < self._most:
                self._waiting[key] = read
            else:
                self.dropped += 1

    def on_replaced(self) -> None:
        """Note that the topics are others from now on: what was read of the old ones is void."""
        with self._lock:
            self._waiting = {}
            self._replaced = True

    def take(self) -> tuple[bool, list[ConsumedRecord | UnreadMessage]]:
        """Take everything out.

        Returns:
            Whether the topics were replaced since the last time, and the records since then.
        """
        with self._lock:
            taken, self._waiting = self._waiting, {}
            replaced, self._replaced = self._replaced, False
        return replaced, list(taken.values())
