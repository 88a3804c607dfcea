"""Where granted partitions start, asked of the brokers before librdkafka reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair

FETCH_TIMEOUT_SECONDS = 3.0


def look_up(consumer: Any, topics: Iterable[str]) -> None:
    """Have librdkafka know the leaders of topics of which it reads nothing.

    It asks for those of an unknown topic only after it was told to read from it, and the first
    fetch waits for librdkafka's next scan, which comes once a second.

    Raises:
        KafkaException: The brokers did not answer.
    """
    for topic in sorted(topics):
        consumer.list_topics(topic, timeout=FETCH_TIMEOUT_SECONDS)


def begin_new(starts: Iterable[Any], new: Collection[Pair]) -> None:
    """Start new partitions without a commit at their beginnings.

    By "latest" the records were lost that came before anybody owned them (KAFKA-12261).
    """
    for start in starts:
        if start.offset == OFFSET_INVALID and (start.topic, start.partition) in new:
            start.offset = OFFSET_BEGINNING


def pin_latest(consumer: Any, starts: Iterable[Any]) -> dict[Pair, int]:
    """Start partitions without a commit at their ends; return these offsets, to be committed.

    Otherwise "latest" were another offset for each owner, and records that arrive between two
    owners would be skipped.

    Raises:
        KafkaException: The brokers did not answer.
    """
    pinned: dict[Pair, int] = {}
    for start in starts:
        if start.offset == OFFSET_INVALID:
            pair = (start.topic, start.partition)
            _, start.offset = consumer.get_watermark_offsets(
                TopicPartition(*pair), timeout=FETCH_TIMEOUT_SECONDS
            )
            pinned[pair] = start.offset
    return pinned
