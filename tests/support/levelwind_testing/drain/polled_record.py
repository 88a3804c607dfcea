"""A record that a consumer of another client polled, with the methods of librdkafka's."""

from __future__ import annotations

from typing import NamedTuple


class PolledRecord(NamedTuple):
    """A record; errors are raised by the consumers that make it."""

    topic_name: str
    number: int
    """Number of the partition."""
    at_offset: int
    time_ms: int
    """When the record was made, in milliseconds since the epoch."""

    def topic(self) -> str:
        """Name of the topic."""
        return self.topic_name

    def partition(self) -> int:
        """Number of the partition."""
        return self.number

    def offset(self) -> int:
        """Offset of the record."""
        return self.at_offset

    def timestamp(self) -> tuple[int, int]:
        """Kind (1: when the record was made) and time of the record's time stamp."""
        return 1, self.time_ms

    def error(self) -> None:
        """None: a consumer raises its errors."""
