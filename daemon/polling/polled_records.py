"""What was polled, as the records that a coordinator writes to `__consumer_offsets`. Pure.

A commit has the time of the answer that showed it first, since no answer has its own, and no
metadata. The members of a classic group are those bytes that its clients sent. The same members
give the same bytes.
Source: the message definitions of Apache Kafka's group coordinator.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from levelwind.assignors.protocol.kafka.types import (
    Reader,
    array,
    compact_array,
    compact_string,
    int16,
    int32,
    nullable_bytes,
    nullable_string,
    string,
)
from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.wire.describe_requests import DescribedGroup, DescribedMember

COMMIT, GROUP, CONSUMER, CURRENT = 1, 2, 5, 8
"""Versions of the keys: a commit, a classic group, and of a KIP-848 group's member what it says of
itself and what it owns."""
COMMIT_VALUE = struct.Struct(">hqihq")
"""Version, offset, leader epoch, length of the metadata, milliseconds since the epoch."""
COMMIT_VERSION, GROUP_VERSION, CONSUMER_VERSION = 3, 3, 0
UNTOLD = -1
"""The time of a group's state, which no answer has."""

Records: TypeAlias = "dict[bytes, bytes]"
"""Values by key."""


class CommitKey(NamedTuple):
    """What a commit is of."""

    group: str
    topic: str
    partition: int


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """The key of a commit."""
    return int16(COMMIT) + string(group) + string(topic) + int32(partition)


def commit_value(offset: int, leader_epoch: int, at: int) -> bytes:
    """The value of a commit at a time, in milliseconds since the epoch."""
    return COMMIT_VALUE.pack(COMMIT_VERSION, offset, leader_epoch, 0, at)


def offset_in(value: bytes) -> int:
    """The offset in the value of a commit.

    Raises:
        WireError: it is not one that `commit_value` made.
    """
    if len(value) != COMMIT_VALUE.size:
        raise WireError(f"a commit of {len(value)} bytes")
    return int(COMMIT_VALUE.unpack(value)[1])


def read_key(key: bytes) -> tuple[int, str, CommitKey | None]:
    """Version and group of a key, and what a commit is of.

    Raises:
        WireError: it is none of the keys that are written here.
    """
    fields = Reader(key)
    version, group = fields.int16(), fields.string()
    if version == COMMIT:
        commit = CommitKey(group, fields.string(), fields.int32())
        fields.end()
        return version, group, commit
    if version in {CONSUMER, CURRENT}:
        fields.string()  # member id
    elif version != GROUP:
        raise WireError(f"key version {version}")
    fields.end()
    return version, group, None


def group_records(group: DescribedGroup) -> Records:
    """The record of a classic group: its members with their own bytes.

    Raises:
        WireError: a string is too long for the record.
    """
    members = [
        string(member.id)
        + nullable_string(member.instance_id)
        + string(member.client_id)
        + string(member.host)
        + int32(UNTOLD)  # rebalance timeout
        + int32(UNTOLD)  # session timeout
        + nullable_bytes(member.subscription)
        + nullable_bytes(member.assignment)
        for member in sorted(group.members)
    ]
    value = (
        int16(GROUP_VERSION)
        + string(group.protocol_type)
        + int32(UNTOLD)  # generation
        + nullable_string(group.protocol or None)
        + nullable_string(None)  # leader
        + struct.pack(">q", UNTOLD)
        + array(members)
    )
    return {int16(GROUP) + string(group.name): value}


def consumer_records(group: str, member: DescribedMember) -> Records:
    """The records of a member of a KIP-848 group.

    No answer tells what a pattern matches: the topics of its partitions count as subscribed to.

    Raises:
        WireError: a string is too long for the key.
    """
    matched = member.assigned_topics if member.pattern else ()
    topics = sorted({*(member.topics or ()), *matched})
    subject = string(group) + string(member.id)
    itself = (
        int16(CONSUMER_VERSION)
        + compact_string(member.instance_id)
        + compact_string(member.rack)
        + compact_string(member.client_id)
        + compact_string(member.host)
        + compact_array([compact_string(topic) for topic in topics])
        + compact_string(member.pattern)
        + int32(UNTOLD)  # rebalance timeout
        + compact_string(None)  # assignor
        + b"\0"
    )
    owned = (
        int16(CONSUMER_VERSION)
        + int32(member.epoch)
        + int32(member.epoch)  # previous epoch
        + b"\0"  # state: stable
        + _by_id(member.assigned or {})
        + _by_id({})  # to be given up
        + b"\0"
    )
    return {int16(CONSUMER) + subject: itself, int16(CURRENT) + subject: owned}


def _by_id(partitions: Mapping[bytes, tuple[int, ...]]) -> bytes:
    return compact_array(
        [
            topic_id + compact_array([int32(number) for number in sorted(numbers)]) + b"\0"
            for topic_id, numbers in sorted(partitions.items())
        ]
    )
