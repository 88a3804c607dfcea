"""Questions for groups and their members as coordinators describe them, in Kafka's bytes. Pure.

Brokers from 2.4 on take the one for classic groups, those with KIP-848 the other. Fields stand in
the order of the protocol; `read` raises `WireError` for bytes that do not fit.
Source: DescribeGroups and ConsumerGroupDescribe of Apache Kafka's message definitions.
"""

# ruff: noqa: D102 - every request has the same three: body (its fields), read (its response's).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerSubscription
from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    compact_array,
    compact_string,
    string,
)
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.wire.group_requests import CONSUMER, GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLASSIC_MEMBER = 0
"""Type of a member of a KIP-848 group that speaks the classic protocol."""


class DescribedMember(NamedTuple):
    """Member of a group."""

    id: str
    instance_id: str | None
    client_id: str
    host: str = ""
    rack: str | None = None
    """Its `client.rack`; None where it has none or does not write it."""
    topics: tuple[str, ...] | None = None
    """Topics that it subscribes to by name; None where that cannot be read."""
    subscription: bytes = b""
    """Bytes of its subscription in a classic group that is stable; else empty."""
    assignment: bytes = b""
    """Bytes of its assignment in a classic group that is stable; else empty."""
    target: Mapping[str, tuple[int, ...]] | None = None
    """Partitions by topic that the coordinator of a KIP-848 group has chosen for it; None in a
    classic group."""
    classic: bool = False
    """Whether it speaks the classic protocol in a KIP-848 group, where the coordinator tells."""
    pattern: str | None = None
    """Pattern that a member of a KIP-848 group subscribes to besides; what that matches is not
    told."""
    epoch: int = 0
    """Its epoch in a KIP-848 group."""
    assigned: Mapping[bytes, tuple[int, ...]] | None = None
    """Partitions by topic id that it has in a KIP-848 group; None in a classic group."""
    assigned_topics: tuple[str, ...] = ()
    """The names of their topics."""


class DescribedGroup(NamedTuple):
    """Classic group; state `Dead` if there is none."""

    error: int
    state: str
    protocol_type: str
    protocol: str
    """Protocol that the members use; empty unless the state is `Stable`."""
    members: tuple[DescribedMember, ...]
    """Without their racks and topics, which `subscribed` reads from their bytes."""
    name: str = ""


class DescribedConsumerGroup(NamedTuple):
    """KIP-848 group."""

    error: int
    members: tuple[DescribedMember, ...] = ()
    assignor: str = ""
    """The assignor of the coordinator that the group uses."""
    name: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    """Question for the states of some classic groups."""

    KEY: ClassVar = 15
    VERSION: ClassVar = 4

    groups: Sequence[str]

    def body(self) -> bytes:
        return array([string(group) for group in self.groups]) + b"\0"  # no authorized operations

    def read(self, fields: Reader) -> tuple[DescribedGroup, ...]:
        fields.int32()  # throttle time
        return fields.array(lambda: _group(fields), min_bytes=18)


@dataclass(frozen=True, slots=True)
class DescribeGroupRequest:
    """Question for the state of one classic group, and for what its members subscribe to."""

    KEY: ClassVar = DescribeGroupsRequest.KEY
    VERSION: ClassVar = DescribeGroupsRequest.VERSION

    group: str

    def body(self) -> bytes:
        return DescribeGroupsRequest((self.group,)).body()

    def read(self, fields: Reader) -> DescribedGroup:
        described = DescribeGroupsRequest((self.group,)).read(fields)
        if len(described) != 1:
            raise WireError(f"{len(described)} groups instead of one")
        (group,) = described
        if group.protocol_type != CONSUMER:
            return group
        return group._replace(members=tuple(map(subscribed, group.members)))


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroupsRequest:
    """Question which of some groups are of KIP-848, and who is in them."""

    KEY: ClassVar = 69
    FLEXIBLE: ClassVar = True
    TYPED_VERSION: ClassVar = 1
    """From this version on, brokers tell by which protocol each member speaks."""

    groups: Sequence[str]
    typed: bool = False
    """Whether to ask for the members' protocols."""

    @property
    def VERSION(self) -> int:  # noqa: N802 - a constant of other requests
        return self.TYPED_VERSION if self.typed else 0

    def body(self) -> bytes:
        return compact_array([*map(compact_string, self.groups)]) + b"\0" + b"\0"

    def read(self, fields: Reader) -> tuple[DescribedConsumerGroup, ...]:
        fields.int32()  # throttle time
        return fields.array(lambda: self._group(fields), compact=True, min_bytes=16)

    def _group(self, fields: Reader) -> DescribedConsumerGroup:
        error = fields.int16()
        fields.nullable_string(compact=True)  # error message
        name = fields.string(compact=True)
        state = fields.string(compact=True)
        for _ in ("group epoch", "assignment epoch"):
            fields.int32()
        assignor = fields.string(compact=True)
        members = fields.array(lambda: self._member(fields), compact=True, min_bytes=16)
        fields.int32()  # authorized operations
        fields.tags()
        return DescribedConsumerGroup(error, members, assignor, name, state)

    def _member(self, fields: Reader) -> DescribedMember:
        member_id, instance_id = fields.string(compact=True), fields.nullable_string(compact=True)
        rack = fields.nullable_string(compact=True)
        epoch = fields.int32()
        client_id, host = fields.string(compact=True), fields.string(compact=True)
        topics = fields.array(lambda: fields.string(compact=True), compact=True)
        pattern = fields.nullable_string(compact=True)
        assigned, target = _partitions(fields), _partitions(fields)
        classic = self.typed and fields.int8() == CLASSIC_MEMBER
        fields.tags()
        return DescribedMember(
            member_id,
            instance_id,
            client_id,
            host,
            rack or None,
            topics,
            target={name: partitions for name, _, partitions in target},
            classic=classic,
            pattern=pattern or None,
            epoch=epoch,
            assigned={topic_id: partitions for _, topic_id, partitions in assigned},
            assigned_topics=tuple(name for name, _, _ in assigned),
        )


@dataclass(frozen=True, slots=True)
class DescribeConsumerGroupRequest:
    """Question whether a group is one of KIP-848, and who is in it."""

    KEY: ClassVar = DescribeConsumerGroupsRequest.KEY
    FLEXIBLE: ClassVar = True
    TYPED_VERSION: ClassVar = DescribeConsumerGroupsRequest.TYPED_VERSION

    group: str
    typed: bool = False
    """Whether to ask for the members' protocols."""

    @property
    def VERSION(self) -> int:  # noqa: N802 - as above
        return self._of_many.VERSION

    @property
    def _of_many(self) -> DescribeConsumerGroupsRequest:
        return DescribeConsumerGroupsRequest((self.group,), self.typed)

    def body(self) -> bytes:
        return self._of_many.body()

    def read(self, fields: Reader) -> DescribedConsumerGroup:
        described = self._of_many.read(fields)
        return described[0] if described else DescribedConsumerGroup(GROUP_ID_NOT_FOUND)


def subscribed(member: DescribedMember) -> DescribedMember:
    """The member of a classic group with what its bytes say; those that are torn say nothing."""
    try:
        subscription = ConsumerSubscription.decode(member.subscription)
    except WireError:
        return member
    return member._replace(rack=subscription.rack or None, topics=tuple(subscription.topics))


def _group(fields: Reader) -> DescribedGroup:
    error = fields.int16()
    name, state, protocol_type, protocol = (fields.string() for _ in range(4))

    def member() -> DescribedMember:
        return DescribedMember(
            fields.string(),
            fields.nullable_string(),
            fields.string(),
            fields.string(),
            subscription=fields.nullable_bytes() or b"",
            assignment=fields.nullable_bytes() or b"",
        )

    members = fields.array(member, min_bytes=16)
    fields.int32()  # authorized operations
    return DescribedGroup(error, state, protocol_type, protocol, members, name)


def _partitions(fields: Reader) -> tuple[tuple[str, bytes, tuple[int, ...]], ...]:
    """Name, id and partitions of each topic."""

    def topic() -> tuple[str, bytes, tuple[int, ...]]:
        topic_id, name = fields.uuid(), fields.string(compact=True)
        partitions = fields.array(fields.int32, compact=True, min_bytes=4)
        fields.tags()
        return name, topic_id, partitions

    topics = fields.array(topic, compact=True, min_bytes=19)
    fields.tags()
    return topics
