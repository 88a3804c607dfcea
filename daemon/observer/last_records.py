"""Where the records of a log really end: at its end there may stand what no consumer is ever given.

A transaction leaves a marker, and an aborted one its records too; a consumer whose client counts from the last record that
it was given stands below them for ever, with nothing left to read. So once a partition's stable end has stood still for
`STILL` samples, its last offsets are read, as a read_committed consumer would, and what is found holds until the end moves.
Looked at first are the last `WINDOWS[0]` offsets, then, as long as they hold no record, the next larger window; beyond the
last nobody knows, and the end is taken for the records' end.

A consumer's client fetches whole batches: a look costs about one batch a partition, and at most `AT_ONCE` partitions are looked
at with one sample. A partition whose end was found to be a record's waits twice as long the next time, up to `STILL_MAX`
samples, a partition with markers never longer than `STILL`: topics without transactions cost next to nothing.
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

    from daemon.observer.cluster_probe import Place

Key: TypeAlias = "tuple[str, int]"
"""A topic's id, and a partition."""

STILL = 5
STILL_MAX = 20
WINDOWS = (8, 64, 512, 4096)
AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What is known of one partition's end."""

    end: int
    still: int = 0
    """Samples since it moved."""
    patience: int = STILL
    """So many it must stand still to be looked at."""
    looked: int = 0
    """So many windows were looked into."""
    data: int = UNKNOWN
    """Where the records end."""

    def sampled(self, end: int) -> Tail:
        """After one sample more."""
        if end == self.end:
            return replace(self, still=min(self.still + 1, STILL_MAX))
        return Tail(end=end, patience=self.patience)

    @property
    def due(self) -> bool:
        """Whether it is to be looked at."""
        return self.data == UNKNOWN and self.looked < len(WINDOWS) and self.still >= self.patience

    def start(self, begin: int) -> int:
        """Where to look from; `begin` is the log's."""
        return max(self.end - WINDOWS[self.looked], begin)

    def found(self, last: int | None, begin: int) -> Tail:
        """After a look that found its last record at an offset, or none."""
        if last is not None:
            plain = last + 1 >= self.end
            patience = min(2 * self.patience, STILL_MAX) if plain else STILL
            return replace(self, data=min(last + 1, self.end), patience=patience)
        if self.start(begin) <= begin:  # the log holds none at all
            return replace(self, data=begin, patience=STILL)
        return replace(self, looked=self.looked + 1)


class Tails:
    """The tails of all partitions that are sampled, and the consumer that looks at them; of the samples' job alone."""

    def __init__(self, client_config: Mapping[str, Any]) -> None:
        self._config = client_config
        self._consumer: Consumer | None = None
        self._tails: dict[Key, Tail] = {}

    def close(self) -> None:
        """Let go of the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def sampled(self, ends: Mapping[Key, int]) -> None:
        """Take in one sample: the stable ends that could be read."""
        self._tails = {
            key: tail.sampled(end) if (tail := self._tails.get(key)) is not None else Tail(end=end)
            for key, end in ends.items()
        }

    def data(self, key: Key) -> int:
        """Where the records end, if that is known to be below the stable end."""
        tail = self._tails.get(key)
        return tail.data if tail is not None and tail.data != tail.end else UNKNOWN

    def look(self, places: Mapping[Key, Place], begins: Mapping[Key, int], timeout: float) -> None:
        """Look at the partitions that are due, in so many seconds at most.

        What cannot be read in that time is looked at again with a later sample.
        """
        due = [key for key, tail in self._tails.items() if tail.due and key in places][:AT_ONCE]
        if not due:
            return
        starts = {places[key]: self._tails[key].start(begins.get(key, 0)) for key in due}
        found = last_records(self._client(), starts, timeout)
        for key in due:
            if places[key] in found:
                self._tails[key] = self._tails[key].found(found[places[key]], begins.get(key, 0))
            else:  # after the others
                self._tails[key] = self._tails.pop(key)

    def _client(self) -> Consumer:
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
                    "fetch.message.max.bytes": 65536,  # a larger batch comes whole all the same
                    "queued.max.messages.kbytes": 16384,
                },
            )
        return self._consumer


def last_records(
    consumer: Consumer, starts: Mapping[Place, int], timeout: float
) -> dict[Place, int | None]:
    """By partition the offset of the last record at or after a start, None for none; those that could be read to their end."""
    until = time.monotonic() + timeout
    last: dict[Place, int | None] = {}
    found: dict[Place, int | None] = {}
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
        while len(found) < len(starts) and (left := until - time.monotonic()) > 0:
            for message in consumer.consume(1000, min(left, 0.1)):
                place = (message.topic(), message.partition())
                if message.error() is None:
                    last[place] = message.offset()
                elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's name for it
                    found[place] = last.get(place)
    finally:
        _let_go(consumer)
    return {place: offset for place, offset in found.items() if place in starts}


def _let_go(consumer: Consumer) -> None:
    """Fetch no more."""
    try:
        consumer.unassign()
    except KafkaException:  # the client is ending
        return


def places_of(topics: Iterable[tuple[str, str, int]]) -> dict[Key, Place]:
    """By topic id and partition the topic's name and partition, of some topics' id, name and number of partitions."""
    return {(id_, number): (name, number) for id_, name, count in topics for number in range(count)}
