"""userData of subscriptions, by assignor; the bytes name neither their kind nor their version.

    sticky v0           [topic [partition]]                    partitions that the member held
    sticky v1           [topic [partition]] | int32 generation (KAFKA-7656)
    cooperative-sticky  int32 generation                       of the subscription's own partitions
    failover            int32 priority                         the highest is preferred

So a newer version can only append, and bytes behind the known fields are ignored, as Kafka's own
assignors do. A member without a failover priority has the highest.
Source: StickyAssignor and CooperativeStickyAssignor of Kafka; the FailoverAssignor of
"Understanding Kafka partition assignment strategies".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.assignors.problem.columns import in_java_order
from levelwind.assignors.protocol.kafka.consumer_protocol import UNKNOWN_GENERATION
from levelwind.assignors.protocol.kafka.types import Reader, int32, topic_partitions
from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from levelwind.assignors.protocol.partition_ranges import Partitions

DEFAULT_PRIORITY = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData:
    """Partitions that a member of a sticky group held, and since which generation."""

    held: Partitions
    generation: int = UNKNOWN_GENERATION
    """Generation of the assignment; v0 has none."""

    def encode(self, version: int = 1) -> bytes:
        """The bytes in v0 or v1.

        Raises:
            WireError: The version is neither, or a value does not fit its field.
        """
        if version not in {0, 1}:
            raise WireError(
                f"cannot be written: sticky userData of version {version}; known are 0 and 1"
            )
        held = topic_partitions(self.held, in_java_order(self.held))
        return held + (int32(self.generation) if version >= 1 else b"")

    @classmethod
    def decode(cls, raw: bytes) -> StickyUserData:
        """Read v1, or v0 when no generation follows.

        Raises:
            WireError: The bytes fit neither version.
        """
        read = Reader(raw)
        held = read.topic_partitions()
        return cls(held=held, generation=read.int32() if read.left >= 4 else UNKNOWN_GENERATION)


def encode_generation(generation: int) -> bytes:
    """The userData of cooperative-sticky; raises `WireError` unless the generation is an int32."""
    return int32(generation)


def decode_generation(raw: bytes | None) -> int:
    """Generation in userData of cooperative-sticky, -1 without any; raises `WireError`."""
    return _int32_or(raw, UNKNOWN_GENERATION)


def encode_priority(priority: int) -> bytes:
    """The userData of failover; raises `WireError` unless the priority is an int32."""
    return int32(priority)


def decode_priority(raw: bytes | None) -> int:
    """Priority in userData of failover, the highest without any; raises `WireError`."""
    return _int32_or(raw, DEFAULT_PRIORITY)


def _int32_or(raw: bytes | None, default: int) -> int:
    return Reader(raw).int32() if raw else default
