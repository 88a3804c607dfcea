"""`levelwind record`: samples of lag as the pipeline publishes them, a line each, for `levelwind simulate --trace`.

The topic keeps only the last sample of each key for good, but compaction comes late: what still stands in it, often the last
hour, is the beginning of the recording, and what is published from then on is its rest. Each line is whole when it is written,
so a recording that is broken off is as good as a shorter one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from assignors.protocol.records import LagRecord, encode
from daemon.errors import ClusterUnavailableError
from daemon.kafka.topic_reader import (
    ConsumedRecord,
    ReadProgress,
    decode_message,
    is_partition_end,
    open_consumer,
    poll_batch,
    stable_ends,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from confluent_kafka import Message

    from assignors.protocol.topics import Topics
    from daemon.config.settings import Settings


@dataclass(slots=True)
class Recording:
    """What was written so far."""

    samples: Counter[str] = field(default_factory=Counter)
    """By group."""
    first: int | None = None
    last: int | None = None
    """Times of samples, milliseconds since the epoch."""

    def note(self, record: LagRecord) -> None:
        """One more."""
        self.samples[record.group] += 1
        self.first = record.at if self.first is None else min(self.first, record.at)
        self.last = record.at if self.last is None else max(self.last, record.at)

    @property
    def text(self) -> str:
        """What it is, for people."""
        if self.first is None or self.last is None:
            return "no sample of lag"
        minutes = (self.last - self.first) / 60_000
        number = sum(self.samples.values())
        samples = "1 sample" if number == 1 else f"{number:,} samples"
        groups = ", ".join(sorted(self.samples))
        return f"{samples} of lag over {minutes:,.1f} min, of {groups}"


def line_of(record: LagRecord) -> bytes:
    """A line that `--trace` reads."""
    key, value = encode(record)
    return b'{"key":%b,"value":%b}\n' % (key, value or b"null")


def record_lag(
    settings: Settings,
    group: str | None,
    out: BinaryIO,
    *,
    seconds: float | None,
    stop: Event,
    tell: Callable[[Recording], None] = lambda _: None,
) -> Recording:
    """Write what stands in the topic and what is published from then on.

    Args:
        settings: where the cluster is.
        group: whose lag; None: everybody's.
        out: where to.
        seconds: for how long to go on once everything that stands there has been read; None: until `stop` is set.
        stop: ends it.
        tell: is told now and then how far it is.

    Raises:
        NotFoundError: the cluster has no such topic.
        ClusterUnavailableError: no answer, or nothing that stands there can be read in time.
    """
    timeout, topics = settings.topic.timeout, settings.topics
    stable = stable_ends(settings.client(), [topics.lag], timeout)
    ends, done = ReadProgress.at(stable), Recording()
    consumer = open_consumer(settings.client(), topics, stable, lambda _: None)
    heard = begun = time.monotonic()
    try:
        while not stop.is_set():
            now = time.monotonic()
            if ends.done and seconds is not None and now >= begun + seconds:
                break
            if not ends.done and now > heard + timeout:
                raise ClusterUnavailableError(
                    f"no progress in {timeout:g} s reading {sorted(ends.missing)}"
                )
            for message in poll_batch(consumer, 0.2):
                heard = now
                if (sample := _sample(topics, message, group)) is not None:
                    out.write(line_of(sample))
                    done.note(sample)
                ends.note(message)
            out.flush()
            tell(done)
            if not ends.done:
                begun = now
    finally:
        consumer.close()
    return done


def _sample(topics: Topics, message: Message, group: str | None) -> LagRecord | None:
    """The sample of lag that a message is, if it is one that is wanted."""
    error = message.error()
    if error is not None:
        if is_partition_end(error):
            return None
        raise ClusterUnavailableError(f"{topics.lag} cannot be read: {error.str()}")
    item = decode_message(topics, message)
    if not isinstance(item, ConsumedRecord) or not isinstance(item.record, LagRecord):
        return None
    return item.record if group is None or item.record.group == group else None
