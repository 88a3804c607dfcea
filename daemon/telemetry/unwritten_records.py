"""Records that are larger than their topic takes: each is logged once, until it is written again.

One such record costs itself alone: whoever reads the topic keeps what was written before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Key


class UnwrittenRecords:
    """The records of a daemon's topics that have no room; any thread may call each method."""

    def __init__(self, log: Any = None) -> None:
        """Begin without any.

        Args:
            log: the logger; None for the process's.
        """
        self._log = log or Logger()
        self._bytes: dict[tuple[str, Key], int] = {}
        """Size of each value, by topic and key."""

    @property
    def none(self) -> bool:
        """Whether there is no such record: mostly, so that a reader need not name what it reads."""
        return not self._bytes

    def refused(self, topic: str, key: Key, size: int) -> None:
        """Note a record that its topic has no room for.

        Args:
            topic: the topic.
            key: the record's key.
            size: the bytes of its value.
        """
        first = (topic, key) not in self._bytes
        self._bytes[topic, key] = size
        if first:
            self._log.error("record.unwritten", topic=topic, key=list(key), bytes=size)

    def written(self, topic: str, key: Key) -> None:
        """Note that a record was written, or has ended."""
        self._bytes.pop((topic, key), None)

    def forget(self, topic: str) -> None:
        """Forget the records of a topic that this daemon does not write any more."""
        for of_topic, key in self.found():
            if of_topic == topic:
                self.written(topic, key)

    def found(self) -> list[tuple[str, Key]]:
        """Topic and key of each record without room."""
        return list(self._bytes)
