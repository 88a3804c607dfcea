"""Shards of the planner's records about a group, kept until their head is read.

A batch may end between a shard and its head, so that the state holds the shards. They are kept as
they were read: the head decides whether they are of use. All functions are pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import GroupShard, MemberShard, decode, encode, encode_key
from levelwind.assignors.protocol.records.cut import shard_keys
from levelwind.assignors.protocol.records.shards import whole

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Key
    from levelwind.assignors.protocol.records.shards import Head, Shard
    from levelwind.streaming.group.state import GroupState


def with_shard(state: GroupState, shard: Shard) -> GroupState:
    """Keep a shard until its head is read."""
    key, value = encode(shard)
    return replace(state, shards={**state.shards, key.decode(): value.decode()})


def without_shards(state: GroupState, head: Key) -> GroupState:
    """Drop the shards of a record."""
    if not state.shards:
        return state
    first, _ = encode_key(shard_keys(head, (0,))[0]).decode().rsplit(",", 1)
    shards = {key: value for key, value in state.shards.items() if not key.startswith(f"{first},")}
    return replace(state, shards=shards)


def reassembled(state: GroupState, head: Head) -> Head | None:
    """The record whose head was read, None while a shard of it is missing."""
    if head.shards is None:
        return head
    shards: dict[Key, Shard] = {}
    for key in shard_keys(head.key, range(head.shards.count)):
        raw = encode_key(key)
        value = state.shards.get(raw.decode())
        record = None if value is None else decode("assignments", raw, value.encode())
        if isinstance(record, GroupShard | MemberShard):
            shards[key] = record
    return whole(head, shards)
