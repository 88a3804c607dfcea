"""Writes replays and the ends of letters to our topics: each alone, and all of them acknowledged or named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from assignors.protocol.records import encode, encode_key
from assignors.protocol.topics import partition_for
from daemon.errors import ClusterUnavailableError, NotFoundError
from daemon.kafka import clients
from daemon.kafka.topic_setup import partition_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import KafkaError, Producer

    from assignors.protocol.records import ReplayRecord
    from assignors.protocol.records.metadata import Key
    from assignors.protocol.topics import Topics
    from daemon.kafka.topic_specs import TopicSettings

PREFERRED: Mapping[str, Any] = {"message.max.bytes": 16 * 1024 * 1024, "compression.type": "zstd"}
"""A letter's bytes grow by a third as text; compressed they fit where the record itself did."""


def give(
    client_config: Mapping[str, Any],
    topics: Topics,
    settings: TopicSettings,
    said: Iterable[tuple[Key, ReplayRecord | None]],
) -> None:
    """Give the pipeline replays, each with the place that it is of; None ends the letter of that place.

    Raises:
        NotFoundError: a topic of ours is missing; a daemon of this version makes it when it starts.
        ClusterUnavailableError: not everything was acknowledged in time; to say it again does no harm.
    """
    within = settings.timeout
    counts = partition_counts(client_config, topics, settings)
    if missing := [name for name in (topics.replays, topics.dead_letters) if name not in counts]:
        raise NotFoundError(
            f"the cluster has no topic {', '.join(missing)}: start the daemon, which makes it"
        )
    failures: list[str] = []
    producer = clients.producer(
        {**PREFERRED, **client_config},
        {"enable.idempotence": True, "message.timeout.ms": round(within * 1000)},
    )
    for place, replay in said:
        topic = topics.dead_letters if replay is None else topics.replays
        _send(
            producer,
            topic,
            counts[topic],
            place,
            None if replay is None else encode(replay)[1],
            failures,
        )
    if producer.flush(within) or failures:
        raise ClusterUnavailableError(
            f"not everything was taken: {failures[0] if failures else 'no answer'}; what was taken need not be sent again"
        )


def _send(
    producer: Producer,
    topic: str,
    partitions: int,
    place: Key,
    value: bytes | None,
    failures: list[str],
) -> None:
    """Send one; what becomes of it is noted where it fails, and the others go on."""
    key = encode_key(place)
    name, partition, offset = place

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(f"{name}/{partition} at offset {offset}: {error.str()}")

    while True:
        try:
            producer.produce(
                topic,
                value,
                key,
                partition=partition_for(key.decode(), partitions),
                on_delivery=delivered,
            )
        except BufferError:
            producer.poll(0.1)  # until the queue has room; what is in it times out
        except KafkaException as exception:
            failures.append(
                f"{name}/{partition} at offset {offset}: {clients.kafka_error(exception).str()}"
            )
            return
        else:
            producer.poll(0)
            return
