"""`levelwind record`: published samples of lag, one a line, for `levelwind simulate --trace`.

The topic retains only the last sample of each key, but compaction comes late: the recording begins
with the samples that the topic still holds, often the last hour, and goes on with each new one.
Each line is written whole, so an interrupted recording is as good as a shorter one.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from confluent_kafka import OFFSET_BEGINNING

from levelwind.assignors.protocol.records import LagRecord, encode
from levelwind.daemon.console import counted
from levelwind.daemon.errors import ClusterUnavailableError
from levelwind.daemon.kafka.repeated_records import RepeatedRecords
from levelwind.daemon.kafka.topic_reader import (
    POLL_SECONDS,
    ReadProgress,
    is_partition_end,
    open_consumer,
    poll_batch,
    read_until,
    stable_ends,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from confluent_kafka import Message

    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.kafka.topic_reader import Decode


@dataclass(slots=True)
class Recording:
    """Counts of the samples written so far."""

    samples: Counter[str] = field(default_factory=Counter)
    """Number of samples, by group."""
    first_at: int | None = None
    """Time of the oldest sample, milliseconds since the epoch; None without a sample."""
    last_at: int | None = None
    """Time of the newest sample, milliseconds since the epoch; None without a sample."""

    def note(self, record: LagRecord) -> None:
        """Count one sample."""
        self.samples[record.group] += 1
        self.first_at = record.at if self.first_at is None else min(self.first_at, record.at)
        self.last_at = record.at if self.last_at is None else max(self.last_at, record.at)

    @property
    def text(self) -> str:
        """A summary for people."""
        if self.first_at is None or self.last_at is None:
            return "no sample of lag"
        minutes = (self.last_at - self.first_at) / 60_000
        samples = counted(sum(self.samples.values()), "sample")
        groups = ", ".join(sorted(self.samples))
        return f"{samples} of lag over {minutes:,.1f} min, of {groups}"


def trace_line(record: LagRecord) -> bytes:
    """The line of a sample in a trace, as `simulate --trace` reads it."""
    key, value = encode(record)
    return b'{"key":%b,"value":%b}\n' % (key, value or b"null")


def record_lag(
    settings: Settings,
    group: str | None,
    out: BinaryIO,
    *,
    seconds: float | None,
    stop: Event,
    on_progress: Callable[[Recording], None] = lambda _: None,
) -> Recording:
    """Write the samples that the topic holds, then those that are published.

    Args:
        settings: the settings, which name the cluster.
        group: the group whose lag is recorded; None: all groups.
        out: the file to write to.
        seconds: how long to go on after the present end of the topic was reached; None: until
            `stop` is set.
        stop: ends the recording when set.
        on_progress: called repeatedly with the counts so far.

    Raises:
        NotFoundError: the cluster has no topic of lag.
        ClusterUnavailableError: the cluster does not answer, or reading makes no progress.
    """
    topics, recording = settings.topics, Recording()
    stable = stable_ends(settings.client(), [topics.lag], settings.topic.timeout)
    consumer = open_consumer(settings.client(), topics, dict.fromkeys(stable, OFFSET_BEGINNING))
    decode = RepeatedRecords().decode

    def write(messages: Sequence[Message]) -> None:
        for message in messages:
            if (sample := _wanted_sample(topics, message, group, decode)) is not None:
                out.write(trace_line(sample))
                recording.note(sample)
        out.flush()
        on_progress(recording)

    with closing(consumer):
        for messages in read_until(consumer, ReadProgress.to(stable), settings.topic.timeout):
            if stop.is_set():
                break
            write(messages)
        stop_at = float("inf") if seconds is None else time.monotonic() + seconds
        while not stop.is_set() and time.monotonic() < stop_at:
            write(poll_batch(consumer, POLL_SECONDS))
    return recording


def _wanted_sample(
    topics: Topics, message: Message, group: str | None, decode: Decode
) -> LagRecord | None:
    """The sample in a message; None if the message is no sample, or one of another group."""
    error = message.error()
    if error is not None:
        if is_partition_end(error):
            return None
        raise ClusterUnavailableError(f"{topics.lag} cannot be read: {error.str()}")
    record = decode("lag", message.key(), message.value())
    if not isinstance(record, LagRecord):
        return None
    return record if group is None or record.group == group else None
