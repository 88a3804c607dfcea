"""Next offsets by partition, to and from confluent-kafka's `TopicPartition`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair

NO_METADATA: Mapping[Pair, str] = MappingProxyType({})


def offsets_of(partitions: Iterable[Any]) -> dict[Pair, int]:
    """Return the offset of each partition."""
    return {(partition.topic, partition.partition): partition.offset for partition in partitions}


def as_topic_partitions(offsets: dict[Pair, int], metadata: Mapping[Pair, str]) -> list[Any]:
    """Return confluent-kafka's `TopicPartition` values, sorted, with metadata where it is given."""
    return [
        TopicPartition(*pair, offset, metadata[pair])
        if pair in metadata
        else TopicPartition(*pair, offset)
        for pair, offset in sorted(offsets.items())
    ]


def without_offsets(pairs: Iterable[Pair]) -> list[Any]:
    """Return confluent-kafka's `TopicPartition` values without offsets, sorted."""
    return [TopicPartition(topic, number) for topic, number in sorted(pairs)]
