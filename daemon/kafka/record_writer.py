"""Writing records to levelwind's topics: their partition, a full queue, and acknowledgements.

Every producer of the daemon hands its messages over by `enqueue`. `write` is for commands: it makes
a producer, writes some records that do not depend on each other, and returns once the brokers have
acknowledged all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from levelwind.assignors.protocol.records import (
    Tombstone,
    encode,
    encode_key,
    epoch_of,
    headers,
    partitions_for,
)
from levelwind.daemon.errors import ClusterUnavailableError, NotFoundError
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.topic_setup import partition_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import KafkaError, Message, Producer

    from levelwind.assignors.protocol.declared.fields import Key
    from levelwind.assignors.protocol.records import Record, ReplayRecord
    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.daemon.kafka.topic_specs import TopicSettings

    OnDelivery = Callable[[KafkaError | None, Message], None]

SIGN_CONFIG: Mapping[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": 10_000,
}
"""Settings of who writes a sign of life again and again: an older one tells less than the next."""

REPLAY_CONFIG: Mapping[str, Any] = {
    "message.max.bytes": 16 * 1024 * 1024,
    "compression.type": "zstd",
}
"""Preferred settings of a producer of replays.

Bytes grow by a third as text; compressed, they fit where the record itself did.
"""

ROOM_POLL_SECONDS = 0.1
"""Pause between two attempts to enqueue a message while the producer's queue is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRecord:
    """One message to be produced."""

    topic: str
    key: bytes
    value: bytes | None
    """The record's JSON; None is a tombstone."""
    partition: int
    headers: tuple[tuple[str, bytes], ...] = ()
    """Schema, content type and epoch of a record; none with a tombstone."""
    name: str = ""
    """Name of the record in the text of an error; empty: its topic and partition."""

    @property
    def label(self) -> str:
        """The name of the record; without one, its topic and partition."""
        return self.name or f"{self.topic}/{self.partition}"


def outgoing(
    topics: Topics, kind: TopicKind, record: Record | Tombstone, partitions: int
) -> list[OutgoingRecord]:
    """Return the messages of a record: one, or one a partition for the planner's own record.

    Args:
        topics: the names of levelwind's topics.
        kind: the topic that the record goes to.
        record: the record, or a tombstone.
        partitions: number of partitions of that topic.
    """
    fields: tuple[tuple[str, bytes], ...] = ()
    if isinstance(record, Tombstone):
        key, value = encode_key(record.key), None
    else:
        key, value = encode(record)
        fields = tuple(headers(record, epoch=epoch_of(record)))
    return [
        OutgoingRecord(
            topic=topics.name(kind), key=key, value=value, partition=number, headers=fields
        )
        for number in partitions_for(kind, record.key, partitions)
    ]


def enqueue(
    producer: Producer,
    record: OutgoingRecord,
    on_delivery: OnDelivery | None = None,
    *,
    wait: bool = True,
) -> None:
    """Hand a message to a producer.

    Args:
        producer: the producer.
        record: the message.
        on_delivery: called from a later poll or flush, with the error or None.
        wait: whether to wait for room in a full queue. The wait ends: messages in the queue time
            out.

    Raises:
        BufferError: the queue is full, and `wait` is false.
        KafkaException: the client refuses the message.
    """
    while True:
        try:
            producer.produce(
                record.topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=on_delivery,
            )
        except BufferError:
            if not wait:
                raise
            producer.poll(ROOM_POLL_SECONDS)
        else:
            return


def write(
    client_config: Mapping[str, Any], records: Iterable[OutgoingRecord], *, timeout: float
) -> None:
    """Write records that do not depend on each other, and wait for their acknowledgements.

    A record that is refused does not keep the others from being written.

    Args:
        client_config: the clients' configuration.
        records: the messages.
        timeout: seconds within which the brokers must acknowledge each message.

    Raises:
        ClusterUnavailableError: not every record was acknowledged in time; to write all of them
            again does no harm.
    """
    failures: list[str] = []
    producer = clients.producer(
        client_config,
        {"enable.idempotence": True, "message.timeout.ms": round(timeout * 1000)},
    )
    for record in records:
        try:
            enqueue(producer, record, _failure_noted(record, failures))
        except KafkaException as exception:
            failures.append(f"{record.label}: {clients.kafka_error(exception).str()}")
        producer.poll(0)
    if producer.flush(timeout) or failures:
        raise ClusterUnavailableError(
            f"not every record was acknowledged: {failures[0] if failures else 'no answer'};"
            " to try again does no harm"
        )


def _failure_noted(record: OutgoingRecord, failures: list[str]) -> OnDelivery:
    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(f"{record.label}: {error.str()}")

    return delivered


def write_replays(
    client_config: Mapping[str, Any],
    topics: Topics,
    settings: TopicSettings,
    replays: Iterable[tuple[Key, ReplayRecord | None]],
) -> None:
    """Have the pipeline read records once more.

    Args:
        client_config: the clients' configuration.
        topics: the names of levelwind's topics.
        settings: for the time-out.
        replays: topic, partition and offset of a record, and its replay; None ends the dead letter
            of that record.

    Raises:
        NotFoundError: a topic is missing; a daemon of this version creates it when it starts.
        ClusterUnavailableError: not every record was acknowledged in time; to write all of them
            again does no harm.
    """
    counts = partition_counts(client_config, topics, settings)
    if missing := [name for name in (topics.replays, topics.dead_letters) if name not in counts]:
        raise NotFoundError(
            f"the cluster has no topic {', '.join(missing)}: start the daemon, which makes it"
        )
    write(
        {**REPLAY_CONFIG, **client_config},
        (_of_replay(topics, counts, key, replay) for key, replay in replays),
        timeout=settings.timeout,
    )


def _of_replay(
    topics: Topics, counts: Mapping[str, int], key: Key, replay: ReplayRecord | None
) -> OutgoingRecord:
    kind: TopicKind = "dead_letters" if replay is None else "replays"
    topic = topics.name(kind)
    (number,) = partitions_for(kind, key, counts[topic])
    name, partition, offset = key
    return OutgoingRecord(
        topic=topic,
        key=encode_key(key),
        value=None if replay is None else encode(replay)[1],
        partition=number,
        headers=() if replay is None else tuple(headers(replay)),
        name=f"{name}/{partition} at offset {offset}",
    )
