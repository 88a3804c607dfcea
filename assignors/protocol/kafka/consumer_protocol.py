"""Kafka's ConsumerProtocol: what a member of a classic group says when it joins, and what its leader gives it.

    Subscription   int16 version | [topic] | userData
              v1+  [topic [partition]] owned
              v2+  int32 generation
              v3+  rack
    Assignment     int16 version | [topic [partition]] | userData

Strings have an int16 length, arrays and userData an int32; -1 is null, which only userData and the rack may be. A version
newer than `NEWEST` is read as the newest, since versions only append: what follows is its own affair. In a version that is
known nothing may follow.
Order: what is written is what Kafka's own client writes, topics and partitions ascending. What is read is as it came, but a
topic named twice is one, and one with no partitions owned or assigned is none, as with Kafka, whose lists are of partitions.
Source: ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json (KIP-429, KIP-792, KIP-881).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors.problem.columns import in_java_order
from assignors.protocol.kafka.types import (
    Reader,
    array,
    int16,
    int32,
    nullable_bytes,
    nullable_string,
    string,
    topic_partitions,
)
from assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from assignors.protocol.partition_ranges import Partitions

NEWEST = 3
UNKNOWN_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSubscription:
    """What a member wants, and what it has."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Partitions = field(default_factory=dict)  # a stranger's numbers: they may be negative
    generation: int = UNKNOWN_GENERATION  # of `owned`
    rack: str | None = None

    def encode(self, version: int = NEWEST) -> bytes:
        """The bytes of a version; what it has no field for is left out.

        Raises:
            WireError: the version is unknown, or a value does not fit its field.
        """
        return (
            int16(_supported(version))
            + array([string(topic) for topic in in_java_order(self.topics)])
            + nullable_bytes(self.user_data)
            + (topic_partitions(self.owned, in_java_order(self.owned)) if version >= 1 else b"")
            + (int32(self.generation) if version >= 2 else b"")
            + (nullable_string(self.rack) if version >= 3 else b"")
        )

    @classmethod
    def decode(cls, raw: bytes) -> ConsumerSubscription:
        """The subscription in a member's bytes; as with Kafka an empty rack is none, and so is a negative generation.

        Raises:
            WireError: they are not what their version says.
        """
        read = Reader(raw)
        version = _version(read)
        subscription = cls(
            topics=read.array(read.string, min_bytes=2),
            user_data=read.nullable_bytes(),
            owned=read.topic_partitions() if version >= 1 else {},
            generation=max(read.int32(), UNKNOWN_GENERATION)
            if version >= 2
            else UNKNOWN_GENERATION,
            rack=read.nullable_string() or None if version >= 3 else None,
        )
        _end(read, version)
        return subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAssignment:
    """What a member gets from the leader of its group."""

    partitions: Partitions
    user_data: bytes | None = None

    def encode(self, version: int = NEWEST) -> bytes:
        """The bytes of a version: they differ in nothing else.

        Raises:
            WireError: the version is unknown, or a value does not fit its field.
        """
        return (
            int16(_supported(version))
            + topic_partitions(self.partitions, in_java_order(self.partitions))
            + nullable_bytes(self.user_data)
        )

    @classmethod
    def decode(cls, raw: bytes) -> ConsumerAssignment:
        """The assignment in a leader's bytes.

        Raises:
            WireError: they are not what their version says.
        """
        read = Reader(raw)
        version = _version(read)
        assignment = cls(partitions=read.topic_partitions(), user_data=read.nullable_bytes())
        _end(read, version)
        return assignment


def _version(read: Reader) -> int:
    version = read.int16()
    if version < 0:
        raise WireError(f"version {version}: the oldest is 0")
    return version


def _end(read: Reader, version: int) -> None:
    if version <= NEWEST:
        read.end()


def _supported(version: int) -> int:
    if not 0 <= version <= NEWEST:
        raise WireError(f"cannot be written: version {version}; known are 0 to {NEWEST}")
    return version
