"""Decoder of the records of a KIP-848 consumer group in `__consumer_offsets`.

    K 0003 | group           V  i32 epoch | tags (0: i64 hash of the metadata)
    K 0004 | group           V  topics: id, name, i32 partitions, racks by partition
                                (until Kafka 4.1, then tombstones only)
    K 0005 | group | member  V  instance, rack, client, host, topic names, regex,
                                i32 rebalance ms, server assignor
                                | tags (0: the session ms and protocols of the classic protocol,
                                  of a member that speaks it)
    K 0006 | group           V  i32 epoch | tags (0: i64 time)
    K 0007 | group | member  V  topics: id, partitions
    K 0008 | group | member  V  i32 epoch | i32 previous | i8 state | assigned
                                | pending revocation: topics by id
    K 0010 | group | regex   V  topic names | i64 version | i64 time

All values are of version 0, flexible. Strings of keys have an i16 length, those of values are
compact. A member owns the partitions that are assigned to it and those that it has yet to give up.
Unknown tagged fields are skipped: brokers add them without a new version.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from levelwind.assignors.protocol.kafka.types import Reader
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.streaming.errors import UnknownVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    ById: TypeAlias = Mapping[str, tuple[int, ...]]
    """By topic id, partitions in ascending order."""

EPOCH, PARTITIONS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
KEYS = (EPOCH, PARTITIONS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX)
OF_MEMBERS = (MEMBER, TARGET, CURRENT)
NEWEST_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecordKey:
    """The key of a record of a group."""

    version: int
    group: str
    name: str | None
    """The member id in a member's record, the expression in a regular expression's; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """The group's epoch, which grows with every change of members or topics."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitions:
    """The topics that the group reads, as the coordinator saw them."""

    topics: Mapping[str, tuple[str, int]]
    """By topic id, the topic's name and number of partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """A member's own description of itself."""

    instance_id: str | None
    rack: str | None
    client_id: str
    topics: tuple[str, ...]
    regex: str | None
    assignor: str | None
    """The server-side assignor that the member asks for."""
    protocols: tuple[str, ...] | None
    """The protocols of a member that speaks the classic protocol; None: it speaks the new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    """The group epoch that the target assignment is for."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """The partitions that a member is to own in the end."""

    partitions: ById


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """The partitions that a member owns now."""

    epoch: int
    state: int
    """0: stable; 1: has partitions to give up; 2: waits for others to give partitions up."""
    assigned: ById
    revoking: ById
    """The partitions that the member owns until it has given them up."""

    @property
    def owned(self) -> ById:
        """All partitions that no other member may own."""
        topics = {**self.assigned, **self.revoking}
        return {
            name: tuple(sorted({*self.assigned.get(name, ()), *self.revoking.get(name, ())}))
            for name in topics
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that a regular expression matches."""

    topics: tuple[str, ...]


Value: TypeAlias = (
    GroupEpoch
    | GroupPartitions
    | MemberMetadata
    | TargetEpoch
    | TargetAssignment
    | CurrentAssignment
    | ResolvedRegex
)


def topics_of(value: Value) -> frozenset[str]:
    """The topics that a value names as read: a member's, or those that an expression matches."""
    return frozenset(value.topics if isinstance(value, MemberMetadata | ResolvedRegex) else ())


def decode_key(key: bytes) -> GroupRecordKey:
    """Decode a key of a version in `KEYS`.

    Raises:
        WireError: the key is malformed.
    """
    reader = Reader(key)
    version = reader.int16()
    group = reader.string()
    name = reader.string() if version in OF_MEMBERS or version == REGEX else None
    reader.end()
    return GroupRecordKey(version=version, group=group, name=name)


def decode_value(version: int, value: bytes) -> Value:
    """Decode the value under a key of a version.

    Raises:
        WireError: the value is malformed.
        UnknownVersion: a newer broker wrote it.
    """
    reader = Reader(value)
    if (found := reader.int16()) != NEWEST_VERSION:
        raise UnknownVersion(f"version {found} of a value under key version {version}")
    decoded = READERS[version](reader)
    reader.end()
    return decoded


def _epoch(reader: Reader) -> GroupEpoch:
    epoch = reader.int32()
    reader.tags()
    return GroupEpoch(epoch=epoch)


def _partitions(reader: Reader) -> GroupPartitions:
    topics = reader.array(lambda: _topic(reader), compact=True)
    reader.tags()
    return GroupPartitions(topics=dict(topics))


def _topic(reader: Reader) -> tuple[str, tuple[str, int]]:
    topic_id = _topic_id(reader)
    name = reader.string(compact=True)
    partitions = reader.int32()
    reader.array(lambda: _racks(reader), compact=True)
    reader.tags()
    return topic_id, (name, partitions)


def _racks(reader: Reader) -> None:
    reader.int32()  # partition
    _strings(reader)
    reader.tags()


def _member(reader: Reader) -> MemberMetadata:
    instance_id = reader.nullable_string(compact=True)
    rack = reader.nullable_string(compact=True)
    client_id = reader.string(compact=True)
    reader.string(compact=True)  # client host
    topics = _strings(reader)
    regex = reader.nullable_string(compact=True)
    reader.int32()  # rebalance timeout
    assignor = reader.nullable_string(compact=True)
    classic = reader.tags().get(0)
    return MemberMetadata(
        instance_id=instance_id or None,
        rack=rack or None,
        client_id=client_id,
        topics=topics,
        regex=regex or None,
        assignor=assignor or None,
        protocols=None if classic is None else _classic(Reader(classic)),
    )


def _classic(reader: Reader) -> tuple[str, ...] | None:
    protocols: tuple[str, ...] | None = None
    if reader.uvarint():  # 0: null
        reader.int32()  # session timeout
        protocols = reader.array(lambda: _protocol(reader), compact=True)
        reader.tags()
    reader.end()
    return protocols


def _protocol(reader: Reader) -> str:
    name = reader.string(compact=True)
    reader.nullable_bytes(compact=True)  # its subscription
    reader.tags()
    return name


def _target_epoch(reader: Reader) -> TargetEpoch:
    return TargetEpoch(epoch=_epoch(reader).epoch)


def _target(reader: Reader) -> TargetAssignment:
    partitions = _by_id(reader)
    reader.tags()
    return TargetAssignment(partitions=partitions)


def _current(reader: Reader) -> CurrentAssignment:
    epoch = reader.int32()
    reader.int32()  # previous epoch
    state = reader.int8()
    assigned, revoking = _by_id(reader), _by_id(reader)
    reader.tags()
    return CurrentAssignment(epoch=epoch, state=state, assigned=assigned, revoking=revoking)


def _resolved(reader: Reader) -> ResolvedRegex:
    topics = _strings(reader)
    reader.int64()  # version of the metadata
    reader.int64()  # time
    reader.tags()
    return ResolvedRegex(topics=topics)


READERS: Mapping[int, Callable[[Reader], Value]] = {
    EPOCH: _epoch,
    PARTITIONS: _partitions,
    MEMBER: _member,
    TARGET_EPOCH: _target_epoch,
    TARGET: _target,
    CURRENT: _current,
    REGEX: _resolved,
}


def _by_id(reader: Reader) -> dict[str, tuple[int, ...]]:
    read: dict[str, tuple[int, ...]] = {}
    for topic_id, partitions in reader.array(lambda: _id_and_partitions(reader), compact=True):
        if any(partition < 0 for partition in partitions):
            raise WireError("negative partition")
        read[topic_id] = tuple(sorted({*read.get(topic_id, ()), *partitions}))
    return read


def _id_and_partitions(reader: Reader) -> tuple[str, tuple[int, ...]]:
    topic_id = _topic_id(reader)
    partitions = reader.array(reader.int32, compact=True, min_bytes=4)
    reader.tags()  # the epochs of the assignment, since Kafka 4.3
    return topic_id, partitions


def _topic_id(reader: Reader) -> str:
    return base64.urlsafe_b64encode(reader.uuid()).decode().rstrip("=")


def _strings(reader: Reader) -> tuple[str, ...]:
    return reader.array(lambda: reader.string(compact=True), compact=True)
