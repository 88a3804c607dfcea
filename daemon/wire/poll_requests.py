"""Requests for groups, their members and their committed offsets, in Kafka's bytes. Pure.

Each is of a fixed version that brokers from 3.0 on take, and asks for many groups at once. Fields
stand in the order of the protocol; `read` raises `WireError` for bytes that do not fit.
Source: the message definitions of Apache Kafka; KIP-699 (coordinators of many groups), KIP-709
(offsets of many groups), KIP-848.
"""

# ruff: noqa: D102 - every request has the same three: body (its fields), read (its response's).

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    compact_array,
    compact_string,
)
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.wire.group_requests import GROUP_AUTHORIZATION_FAILED, NO_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NO_OFFSET = -1
"""Committed offset of a partition without a commit."""

PLAIN_PARTITION = struct.Struct(">iqiBhB")
"""Number, offset, leader epoch, and of a commit without metadata and error: 1, 0, 0."""
PLAIN_END = (1, 0, 0)

COORDINATORS_ASKED = 1000
"""Groups of one question for their coordinators."""


class Broker(NamedTuple):
    """Address of a broker."""

    host: str
    port: int


class ListedGroup(NamedTuple):
    """Group, as its coordinator lists it."""

    name: str
    protocol_type: str
    """Empty for a group that only commits."""
    state: str
    type: str
    """`classic`, `consumer`, `share`, `streams`; empty where the broker is older than these."""


class ListedGroups(NamedTuple):
    """The groups that one broker coordinates."""

    error: int
    groups: tuple[ListedGroup, ...]


class FoundCoordinator(NamedTuple):
    """The broker that coordinates a group, or why there is none."""

    group: str
    error: int
    """0: it has one; otherwise why the broker names none."""
    message: str | None = None
    host: str = ""
    port: int = 0

    @property
    def refusal(self) -> str:
        """The error in words; empty if there is none."""
        if self.error == NO_ERROR:
            return ""
        if self.error == GROUP_AUTHORIZATION_FAILED:  # brokers leave the message empty
            return f"this user lacks DESCRIBE on group {self.group}"
        return f"the group has no coordinator: error {self.error} {self.message or ''}".rstrip()


class FetchedGroup(NamedTuple):
    """What one group has committed."""

    name: str
    error: int
    topics: Mapping[str, bytes]
    """By topic, its partitions as the broker wrote them: `committed_offsets` reads them."""


@dataclass(frozen=True, slots=True)
class BrokersRequest:
    """Question for the addresses of all brokers."""

    KEY: ClassVar = 3
    VERSION: ClassVar = 4

    def body(self) -> bytes:
        return array([]) + b"\0"  # no topics, and none are created

    def read(self, fields: Reader) -> dict[int, Broker]:
        fields.int32()  # throttle time

        def broker() -> tuple[int, Broker]:
            found = fields.int32(), Broker(fields.string(), fields.int32())
            fields.nullable_string()  # rack
            return found

        return dict(fields.array(broker, min_bytes=12))


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    """Question for the groups that a broker coordinates.

    `VERSION` is that with the groups' states; `typed` brokers tell the groups' types, too.
    """

    KEY: ClassVar = 16
    FLEXIBLE: ClassVar = True
    TYPED_VERSION: ClassVar = 5

    typed: bool

    @property
    def VERSION(self) -> int:  # noqa: N802 - as the constants of the other requests
        return self.TYPED_VERSION if self.typed else self.TYPED_VERSION - 1

    def body(self) -> bytes:
        nothing_left_out = b"\1"
        return nothing_left_out * (2 if self.typed else 1) + b"\0"

    def read(self, fields: Reader) -> ListedGroups:
        fields.int32()  # throttle time
        error = fields.int16()

        def group() -> ListedGroup:
            name, kind, state = (fields.string(compact=True) for _ in range(3))
            found = ListedGroup(
                name, kind, state, fields.string(compact=True).lower() if self.typed else ""
            )
            fields.tags()
            return found

        return ListedGroups(error, fields.array(group, compact=True, min_bytes=4))


@dataclass(frozen=True, slots=True)
class FindCoordinatorsRequest:
    """Question for the brokers that coordinate some groups (KIP-699)."""

    KEY: ClassVar = 10
    VERSION: ClassVar = 4
    FLEXIBLE: ClassVar = True

    groups: Sequence[str]

    def body(self) -> bytes:
        of_groups = b"\0"
        return of_groups + compact_array([compact_string(name) for name in self.groups]) + b"\0"

    def read(self, fields: Reader) -> tuple[FoundCoordinator, ...]:
        fields.int32()  # throttle time

        def coordinator() -> FoundCoordinator:
            group = fields.string(compact=True)
            fields.int32()  # node id
            host, port = fields.string(compact=True), fields.int32()
            error, message = fields.int16(), fields.nullable_string(compact=True)
            fields.tags()
            return FoundCoordinator(group, error, message, host, port)

        found = fields.array(coordinator, compact=True, min_bytes=14)
        if len(found) != len(self.groups):
            raise WireError(f"coordinators of {len(found)} groups instead of {len(self.groups)}")
        return found


def coordinator_questions(groups: Sequence[str]) -> Iterator[FindCoordinatorsRequest]:
    """Yield questions of bounded size for the coordinators of any number of groups."""
    for first in range(0, len(groups), COORDINATORS_ASKED):
        yield FindCoordinatorsRequest(groups[first : first + COORDINATORS_ASKED])


@dataclass(frozen=True, slots=True)
class FetchOffsetsRequest:
    """Question for all that some groups have committed, transactions that are open left out."""

    KEY: ClassVar = 9
    VERSION: ClassVar = 8
    FLEXIBLE: ClassVar = True

    groups: Sequence[str]
    known: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """What was read last, by group and topic: the same bytes are not looked into again."""

    def body(self) -> bytes:
        of_all_topics = b"\0" + b"\0"
        groups = [compact_string(group) + of_all_topics for group in self.groups]
        return compact_array(groups) + b"\0" + b"\0"

    def read(self, fields: Reader) -> tuple[FetchedGroup, ...]:
        fields.int32()  # throttle time

        def group() -> FetchedGroup:
            name = fields.string(compact=True)
            known = self.known.get(name, {})
            topics = dict(fields.array(lambda: topic(known), compact=True, min_bytes=3))
            error = fields.int16()
            fields.tags()
            return FetchedGroup(name, error, topics)

        def topic(known: Mapping[str, bytes]) -> tuple[str, bytes]:
            name = fields.string(compact=True)
            raw = fields.same(known[name]) if name in known else None
            found = _partitions(fields) if raw is None else raw
            fields.tags()
            return name, found

        return fields.array(group, compact=True, min_bytes=5)


def committed_offsets(raw: bytes) -> dict[int, tuple[int, int]]:
    """Offset and leader epoch by partition, of a topic's partitions as a broker wrote them.

    A partition without a commit, or whose offset cannot be told, is left out.
    """
    reader = Reader(raw)
    count = reader.uvarint() - 1
    found: dict[int, tuple[int, int]] = {}
    if reader.left == count * PLAIN_PARTITION.size:  # none is shorter, so each has this size
        plain = PLAIN_PARTITION.iter_unpack(raw[len(raw) - reader.left :])
        return {
            number: (offset, epoch)
            for number, offset, epoch, _, error, _ in plain
            if not error and offset > NO_OFFSET
        }
    for _ in range(count):
        number, offset, epoch, error = _partition(reader)
        if not error and offset > NO_OFFSET:
            found[number] = (offset, epoch)
    return found


def _partitions(fields: Reader) -> bytes:
    """The bytes of a topic's partitions, with their number before them."""
    ahead = fields.ahead()
    count = ahead.uvarint() - 1
    size = count * PLAIN_PARTITION.size
    if 0 <= size <= ahead.left and _all_plain(ahead.ahead().take(size)):
        return fields.take(fields.left - ahead.left + size)
    for _ in range(count):
        _partition(ahead)
    return fields.take(fields.left - ahead.left)


def _all_plain(raw: bytes) -> bool:
    return all(tuple(end) == PLAIN_END for _, _, _, *end in PLAIN_PARTITION.iter_unpack(raw))


def _partition(fields: Reader) -> tuple[int, int, int, int]:
    number, offset, epoch = fields.int32(), fields.int64(), fields.int32()
    fields.nullable_string(compact=True)  # metadata
    error = fields.int16()
    fields.tags()
    return number, offset, epoch, error
