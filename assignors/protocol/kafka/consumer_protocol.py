"""Kafka's ConsumerProtocol: subscriptions and assignments of classic group members.

    Subscription   int16 version | [topic] | userData
              v1+  [topic [partition]] owned
              v2+  int32 generation
              v3+  rack
    Assignment     int16 version | [topic [partition]] | userData

Strings have an int16 length, arrays and userData an int32. A length of -1 is null, which only
userData and the rack may be. A version newer than `NEWEST` is read as the newest, since versions
only append, and the bytes behind its fields are ignored. In a known version nothing may follow.
Order: writing matches Kafka's own client, topics and partitions ascending. Reading keeps the order,
but merges a topic that is named twice and drops a topic without owned or assigned partitions, as
Kafka does, whose lists are of partitions.
Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json (KIP-429, KIP-792,
KIP-881).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from levelwind.assignors.problem.columns import in_java_order
from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    int16,
    int32,
    nullable_bytes,
    nullable_string,
    string,
    topic_partitions,
)
from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from levelwind.assignors.protocol.partition_ranges import Partitions

NEWEST = 3
UNKNOWN_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSubscription:
    """Subscription of a member when it joins, with the partitions that it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Partitions = field(default_factory=dict)
    """Partitions that the member owns; as foreign numbers they may be negative."""
    generation: int = UNKNOWN_GENERATION
    """Generation of the group in which the member got `owned`."""
    rack: str | None = None

    def encode(self, version: int = NEWEST) -> bytes:
        """The bytes in a version; what the version has no field for is left out.

        Raises:
            WireError: The version is unknown, or a value does not fit its field.
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
        """The subscription in a member's bytes.

        As with Kafka, an empty rack counts as no rack, and a negative generation as unknown.

        Raises:
            WireError: The bytes do not fit their version.
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
    """Assignment of a member by the leader of its group."""

    partitions: Partitions
    user_data: bytes | None = None

    def encode(self, version: int = NEWEST) -> bytes:
        """The bytes in a version; versions differ only in their number.

        Raises:
            WireError: The version is unknown, or a value does not fit its field.
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
            WireError: The bytes do not fit their version.
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
