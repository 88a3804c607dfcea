"""Question for the sizes of logs and its response, in Kafka's bytes. Pure.

Source: DescribeLogDirsRequest.json and DescribeLogDirsResponse.json of Apache Kafka (KIP-113).
"""

# ruff: noqa: D102 - as in `group_requests`: body (the request's fields), read (its response's).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from levelwind.assignors.protocol.kafka.types import Reader, topic_partitions

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest:
    """Question for the bytes that a broker's replicas of some partitions have on its disks.

    Needs DESCRIBE on the cluster; without it this version has an empty response.
    """

    KEY: ClassVar = 35
    VERSION: ClassVar = 1

    partitions: Mapping[str, tuple[int, ...]]
    """Partitions by topic."""

    def body(self) -> bytes:
        return topic_partitions(self.partitions, tuple(self.partitions))

    def read(self, fields: Reader) -> dict[tuple[str, int], int]:
        """Bytes by topic and partition; a replica that is moved to another disk counts once."""
        sizes: dict[tuple[str, int], int] = {}

        def partition(topic: str) -> None:
            number, size = fields.int32(), fields.int64()
            fields.int64()  # offset lag
            if not fields.int8():  # whether it is the copy on the next disk
                sizes[topic, number] = size

        def topic() -> None:
            name = fields.string()
            fields.array(lambda: partition(name), min_bytes=21)

        def directory() -> None:
            fields.int16()  # error: then without topics
            fields.string()  # path
            fields.array(topic, min_bytes=6)

        fields.int32()  # throttle time
        fields.array(directory, min_bytes=8)
        return sizes
