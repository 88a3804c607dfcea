"""Classic group metadata (key version 2), with the ConsumerProtocol bytes that it embeds.

Only groups of protocol type `consumer` say who owns what; the members of others (Connect, custom) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.reading import Malformed, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

NEWEST = 4
FLEXIBLE = 4
NEWEST_CONSUMER_PROTOCOL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member of a classic group, as its coordinator wrote it down."""

    member_id: str
    instance_id: str | None
    client_id: str
    rack: str | None
    assigned: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One generation of a classic group."""

    generation: int
    protocol: str | None
    members: tuple[ClassicMember, ...]


class UnknownVersion(ValueError):  # noqa: N818 - a verdict, as Malformed
    """Written by a newer broker than this knows."""


def read(value: bytes) -> Membership:
    """The generation in a group metadata value; raises `Malformed` or `UnknownVersion`."""
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= NEWEST:
        raise UnknownVersion(f"group metadata version {version}")
    flexible = version >= FLEXIBLE
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
    flexible = version >= FLEXIBLE
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
    return ClassicMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        rack=_rack(subscription) if consumer else None,
        assigned=_assigned(assignment) if consumer else {},
    )


def _rack(subscription: bytes | None) -> str | None:
    if not subscription:
        return None
    reader = Reader(subscription)
    version = reader.int16()
    if version < 3:
        return None
    reader.array(reader.string)  # topics
    reader.nullable_bytes()  # user data
    reader.array(lambda: (reader.string(), reader.array(reader.int32)))  # owned partitions
    reader.int32()  # generation
    return reader.nullable_string() or None  # what newer versions append is theirs


def _assigned(assignment: bytes | None) -> dict[str, tuple[int, ...]]:
    if not assignment:  # librdkafka's leader sends a member without partitions zero bytes
        return {}
    reader = Reader(assignment)
    reader.int16()  # version: later ones only append
    topics = reader.array(lambda: (reader.string(), reader.array(reader.int32)))
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in topics:
        if any(partition < 0 for partition in partitions):
            raise Malformed("negative partition")
        assigned[topic] = tuple(sorted({*assigned.get(topic, ()), *partitions}))
    return assigned
