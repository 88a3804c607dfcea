"""Decoder of classic group metadata (key version 2) with the ConsumerProtocol bytes that it embeds.

Only groups of protocol type `consumer` have an assignment of partitions; the members of others
(Connect, custom) are left out.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.kafka.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.kafka.types import Reader
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.streaming.errors import UnknownVersion

if TYPE_CHECKING:
    from levelwind.assignors.protocol.partition_ranges import Partitions

NEWEST_VERSION = 4
FLEXIBLE_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member of a classic group, as its coordinator recorded it."""

    member_id: str
    instance_id: str | None
    client_id: str
    rack: str | None
    assigned: Partitions
    topics: tuple[str, ...] | None = None
    """Topics that it subscribes to; None: its subscription cannot be read."""

    @property
    def reads(self) -> bool:
        """Whether the member subscribes to a topic, or its subscription cannot be read."""
        return self.topics is None or bool(self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One generation of a classic group."""

    generation: int
    protocol: str | None
    members: tuple[ClassicMember, ...]

    @property
    def topics(self) -> frozenset[str]:
        """The topics that a member has partitions of, or subscribes to."""
        assigned = (
            topic
            for member in self.members
            for topic, partitions in member.assigned.items()
            if partitions
        )
        return frozenset(assigned).union(*(member.topics or () for member in self.members))


def decode(value: bytes) -> Membership:
    """Decode the generation in a group metadata value.

    Raises:
        WireError: the value is malformed.
        UnknownVersion: a newer broker wrote it.
    """
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= NEWEST_VERSION:
        raise UnknownVersion(f"group metadata version {version}")
    flexible = version >= FLEXIBLE_VERSION
    protocol_type = reader.string(compact=flexible)
    generation = reader.int32()
    protocol = reader.nullable_string(compact=flexible)
    reader.nullable_string(compact=flexible)  # leader
    if version >= 2:
        reader.int64()  # current state's time
    consumer = protocol_type == "consumer"
    members = reader.array(lambda: _member(reader, version, consumer=consumer), compact=flexible)
    if flexible:
        reader.tags()
    reader.end()
    return Membership(
        generation=generation,
        protocol=protocol,
        members=members if consumer else (),
    )


def _member(reader: Reader, version: int, *, consumer: bool) -> ClassicMember:
    flexible = version >= FLEXIBLE_VERSION
    member_id = reader.string(compact=flexible)
    instance_id = reader.nullable_string(compact=flexible) if version >= 3 else None
    client_id = reader.string(compact=flexible)
    reader.string(compact=flexible)  # client host
    if version >= 1:
        reader.int32()  # rebalance timeout
    reader.int32()  # session timeout
    subscription = reader.nullable_bytes(compact=flexible)
    assignment = reader.nullable_bytes(compact=flexible)
    if flexible:
        reader.tags()
    subscribed = _subscription(subscription) if consumer else None
    return ClassicMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        rack=None if subscribed is None else subscribed.rack,
        assigned=_assigned(assignment) if consumer else {},
        topics=None if subscribed is None else subscribed.topics,
    )


def _subscription(subscription: bytes | None) -> ConsumerSubscription | None:
    # No broker has checked what a member writes here: some clients write a version and leave its
    # fields out (kafka-go: v1 without the owned partitions). That costs their group racks and the
    # knowledge of what is subscribed to, not that of its assignment.
    with suppress(WireError):
        return ConsumerSubscription.decode(subscription) if subscription else None
    return None


def _assigned(assignment: bytes | None) -> Partitions:
    if not assignment:  # librdkafka's leader sends a member without partitions zero bytes
        return {}
    assigned = ConsumerAssignment.decode(assignment).partitions
    if any(partitions and partitions[0] < 0 for partitions in assigned.values()):
        raise WireError("negative partition")
    return assigned
