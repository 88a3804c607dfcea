"""Reading levelwind's topics to their end: committed records only, up to the end at the start.

A partition has been read to its end when everything below its stable offset has passed.
Transaction markers take offsets but are no records: a log may end in them, or in an aborted
transaction, so that the offset of the last record says nothing. librdkafka's end-of-partition event
does: it carries the next offset to fetch, behind those markers.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec
from msgspec import Struct

from levelwind.assignors.protocol.records import Record, Rejection, Tombstone
from levelwind.assignors.protocol.topics import TopicKind
from levelwind.assignors.protocol.unread_lag import UnreadLag
from levelwind.daemon.errors import ClusterUnavailableError, NotFoundError
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.repeated_records import RepeatedRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient

    from levelwind.assignors.protocol.topics import Topics

    Decode = Callable[
        [TopicKind, bytes | None, bytes | None], Record | Tombstone | Rejection | UnreadLag | None
    ]

BATCH = 1000
"""The most messages of one poll."""

GROUP_KINDS: tuple[TopicKind, ...] = ("metadata", "lag", "triggers", "members", "assignments")
"""The topics that describe the groups."""

CONTROL_KINDS: tuple[TopicKind, ...] = (*GROUP_KINDS, "control")
"""The topics that the control follows."""

POLL_SECONDS = 0.2
"""Longest wait of one poll for a message."""

OFFSET_SAMPLE_PREFIX = b'["offsets",'
"""First bytes of the key of a sample of offsets.

Keys are canonical JSON, so a sample is recognised, and left out, without being decoded.
"""

REQUIRED: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # The client notices the end of a partition by an empty fetch, which takes this long.
    "fetch.wait.max.ms": 100,
}


class ConsumedRecord(Struct, frozen=True):
    """A record of levelwind, with its position in the log."""

    kind: TopicKind
    """The topic that the record is in."""
    record: Record | Tombstone
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the epoch, set by the producer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMessage:
    """A message that does not match the schema of its topic, with its position in the log."""

    kind: TopicKind
    """The topic that the message is in."""
    reason: str
    """The field, and what was expected of it."""
    partition: int
    offset: int
    timestamp: int


class UnreadMessage(Struct, frozen=True):
    """A sample of lag that was left unread, with its position in the log."""

    kind: TopicKind
    """The topic that the message is in."""
    record: UnreadLag
    partition: int
    offset: int
    timestamp: int


def take_message(
    topics: Topics, message: Message, decode: Decode
) -> ConsumedRecord | UnreadMessage | RejectedMessage | None:
    """Take a message of one of levelwind's topics, of which `decode` reads key and value.

    None: it is part of a record that is not whole.
    """
    kind = topics.kind(message.topic())
    if kind is None:
        raise ValueError(f"{message.topic()} is none of levelwind's topics")
    record = decode(kind, message.key(), message.value())
    if record is None:
        return None
    partition, offset, timestamp = message.partition(), message.offset(), message.timestamp()[1]
    if isinstance(record, Rejection):
        return RejectedMessage(
            kind=kind,
            reason=record.reason,
            partition=partition,
            offset=offset,
            timestamp=timestamp,
        )
    if isinstance(record, UnreadLag):
        return UnreadMessage(kind, record, partition, offset, timestamp)
    return ConsumedRecord(kind, record, partition, offset, timestamp)


@dataclass(slots=True)
class ReadProgress:
    """Progress of a reading towards the ends that the partitions had at its start."""

    missing: dict[tuple[str, int], int]
    """End offset still to reach, by topic and partition; a partition leaves when it is reached."""

    @classmethod
    def to(cls, ends: Mapping[tuple[str, int], int]) -> ReadProgress:
        """Progress of a reading from the beginning; the end of an empty partition is reached."""
        return cls({partition: end for partition, end in ends.items() if end > 0})

    def reached(self, topic: str, partition: int, next_offset: int) -> None:
        """Note the next offset to read of a partition."""
        end = self.missing.get((topic, partition))
        if end is not None and end <= next_offset:
            del self.missing[topic, partition]

    def note(self, message: Message) -> None:
        """Note a message that was handled, or the end of a partition."""
        position = next_offset(message)
        if position is not None:
            self.reached(message.topic(), message.partition(), position)

    @property
    def done(self) -> bool:
        """Whether every end has been reached."""
        return not self.missing


def stable_ends(
    client_config: Mapping[str, Any], names: Iterable[str], timeout: float
) -> dict[tuple[str, int], int]:
    """Return the last stable offset of each partition of some topics.

    Raises:
        NotFoundError: a topic does not exist.
        ClusterUnavailableError: no answer in time, or not for every partition.
    """
    client = clients.admin(client_config)
    names = tuple(names)
    for attempt in clients.retrying(_NoEndError, timeout):
        with attempt:
            listed = clients.list_topics(client, client_config, timeout).topics
            if absent := [name for name in names if name not in listed]:
                raise NotFoundError(
                    f"the cluster has no topic {', '.join(absent)},"
                    " or does not show it to this user"
                )
            counts = {name: len(listed[name].partitions) for name in names}
            ends = ask_ends(client, counts, timeout)
    return ends


class _NoEndError(ClusterUnavailableError):
    """A partition has no leader, or its leader has just gone: worth a retry until the timeout."""


def ask_ends(
    client: AdminClient, counts: Mapping[str, int], timeout: float
) -> dict[tuple[str, int], int]:
    """Ask once for the last stable offset of each partition of some topics.

    Args:
        client: an admin client.
        counts: number of partitions of each topic, by name.
        timeout: seconds to wait for the answer.

    Raises:
        ClusterUnavailableError: no answer in time, or not for every partition.
    """
    latest = {
        TopicPartition(name, number): OffsetSpec.latest()
        for name, count in counts.items()
        for number in range(count)
    }
    ends: dict[tuple[str, int], int] = {}
    answers = clients.list_offsets(client, latest, IsolationLevel.READ_COMMITTED, timeout)
    for partition, answer in answers:
        name = f"{partition.topic}/{partition.partition}"
        try:
            offset = answer.result().offset
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            raised = (
                ClusterUnavailableError
                if error.code() in clients.AUTHORIZATION_ERRORS
                else _NoEndError
            )
            raise raised(f"no end offset of {name}: {error.str()}") from exception
        if offset < 0:
            raise _NoEndError(f"no end offset of {name}: its leader does not answer")
        ends[partition.topic, partition.partition] = offset
    return ends


def read_to_end(
    client_config: Mapping[str, Any],
    topics: Topics,
    kinds: Sequence[TopicKind],
    *,
    timeout: float = 30.0,
    samples: bool = False,
    decode: Decode | None = None,
) -> Iterator[ConsumedRecord]:
    """Read topics of levelwind from their beginning to the end that they have now.

    A message that does not match the schema of its topic is passed over: the daemon, which follows
    the topics, counts and logs it.

    Args:
        client_config: the clients' configuration.
        topics: the names of levelwind's topics.
        kinds: the topics to read.
        timeout: seconds without progress after which reading gives up.
        samples: whether to include the samples of offsets in `metadata`.
        decode: decodes each message; None: records that were cut as text are made whole.

    Raises:
        NotFoundError: a topic does not exist.
        ClusterUnavailableError: no answer, or no progress in time.
    """
    decode = decode or RepeatedRecords().decode
    names = [topics.name(kind) for kind in kinds]
    for message in messages_to_end(client_config, topics, names, timeout):
        if samples or not is_offset_sample(message):
            item = take_message(topics, message, decode)
            if isinstance(item, ConsumedRecord):
                yield item


def messages_to_end(
    client_config: Mapping[str, Any], topics: Topics, names: Sequence[str], timeout: float
) -> Iterator[Message]:
    """Read topics by their names as `read_to_end` does, but leave the messages as they are."""
    stable = stable_ends(client_config, names, timeout)
    progress = ReadProgress.to(stable)
    if progress.done:
        return
    starts = dict.fromkeys(stable, OFFSET_BEGINNING)
    with closing(open_consumer(client_config, topics, starts)) as consumer:
        for messages in read_until(consumer, progress, timeout):
            yield from (message for message in messages if message.error() is None)


def read_until(
    consumer: Consumer, progress: ReadProgress, timeout: float
) -> Iterator[list[Message]]:
    """Poll a consumer until all ends are reached; yield the messages of each poll, also none.

    Messages include errors and the ends of partitions. A message counts as progress once the caller
    asks for the next poll.

    Args:
        consumer: a consumer of the partitions, from `open_consumer`.
        progress: the ends to reach; updated with each message.
        timeout: seconds without a message after which reading gives up.

    Raises:
        ClusterUnavailableError: no message came for `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while not progress.done:
        messages = poll_batch(consumer, POLL_SECONDS)
        yield messages
        for message in messages:
            progress.note(message)
        now = time.monotonic()
        if messages:
            deadline = now + timeout
        elif now > deadline:
            raise ClusterUnavailableError(
                f"no progress in {timeout:g} s reading {sorted(progress.missing)}"
            )


def open_consumer(
    client_config: Mapping[str, Any],
    topics: Topics,
    starts: Mapping[tuple[str, int], int],
    on_error: Callable[[KafkaError], None] = lambda _: None,
    fetch_wait_ms: int | None = None,
) -> Consumer:
    """Make a consumer of some partitions; it joins no group, but the client requires a group id.

    Args:
        client_config: the clients' configuration.
        topics: the names of levelwind's topics, whose prefix the group id has.
        starts: the offset to start from, by topic and partition.
        on_error: called with errors of the client; the client recovers from them by itself.
        fetch_wait_ms: longest wait of a fetch for a record; None: so short that ends are noticed
            soon.
    """
    group = {"group.id": f"{topics.prefix}reader", "error_cb": on_error}
    required = {**REQUIRED, **group}
    if fetch_wait_ms is not None:
        required["fetch.wait.max.ms"] = fetch_wait_ms
    consumer = clients.consumer(client_config, required)
    consumer.assign([TopicPartition(*partition, offset) for partition, offset in starts.items()])
    return consumer


def poll_batch(consumer: Consumer, timeout: float) -> list[Message]:
    """Wait up to `timeout` seconds for a message, and take all others that are there already.

    `consume` alone would wait until the batch is full.
    """
    first = consumer.poll(timeout)
    return [] if first is None else [first, *consumer.consume(BATCH - 1, 0)]


def next_offset(message: Message) -> int | None:
    """Return the next offset to read after a message or an end of a partition.

    None if the message is an error, which says nothing about the position.
    """
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    return int(message.offset()) if is_partition_end(error) else None


def is_offset_sample(message: Message) -> bool:
    """Whether a message is a sample of a topic's offsets, by its key."""
    key = message.key()
    return key is not None and key.startswith(OFFSET_SAMPLE_PREFIX)


def is_partition_end(error: KafkaError) -> bool:
    """Whether an error is no failure, but reports that a partition is read to its present end."""
    return bool(error.code() == KafkaError._PARTITION_EOF)  # noqa: SLF001 - the client's own name
