"""Shards of records that are too large for one message.

Whoever writes a record that is cut writes the shards and then their head, the record without what
the shards hold: the planner in one transaction, the pipeline one after the other. So a reader that
meets the newest head has read its shards. Shards belong to a head that names their digest; a reader
without all of them keeps the last state that it had.

The assignment of a plan that members follow without a hand-over (`published`) is always in shards,
whatever its size: the plan's record is their head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import ClassVar, TypeAlias, TypeVar

from msgspec.structs import replace

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Epoch, Key, Name, Share, Shares, Whole
from levelwind.assignors.protocol.partition_ranges import Partitions
from levelwind.assignors.protocol.records.cut import Cut, TextShard, shard_keys, text_digest
from levelwind.assignors.protocol.records.planned_group import GroupRecord, Members, PlannedTopic
from levelwind.assignors.protocol.records.planner import MemberAssignment


class GroupShard(Declared, frozen=True, kw_only=True):
    """Some topics and members of a group's plan."""

    KIND: ClassVar = "group_shard"
    WORD: ClassVar = "gs"
    KEY_FIELDS: ClassVar = ("group", "shard")

    group: Name
    shard: Whole
    """Number of the shard, from 0."""
    digest: Name
    """The digest that the plan's record names."""
    topics: Mapping[str, PlannedTopic]
    members: Members


class MemberShard(Declared, frozen=True, kw_only=True):
    """Some partitions of a member's assignment."""

    KIND: ClassVar = "member_shard"
    WORD: ClassVar = "ms"
    KEY_FIELDS: ClassVar = ("group", "instance", "incarnation", "shard")

    group: Name
    instance: Name
    incarnation: Name
    shard: Whole
    """Number of the shard, from 0."""
    digest: Name
    """The digest that the member's record names."""
    assigned: Share
    pending: Share
    revoking: Share


Shard: TypeAlias = GroupShard | MemberShard
Head: TypeAlias = GroupRecord | MemberAssignment
AnyShard = TypeVar("AnyShard", GroupShard | MemberShard, TextShard)


def _found(key: Key, cut: Cut, shards: Mapping[Key, AnyShard]) -> list[AnyShard] | None:
    """The shards of a record in order; None: one is missing."""
    keys = shard_keys(key, range(cut.count))
    found = [
        shard
        for key in keys
        if (shard := shards.get(key)) is not None and shard.digest == cut.digest
    ]
    return found if len(found) == len(keys) else None


def whole(head: Head, shards: Mapping[Key, Shard]) -> Head | None:
    """The record that was cut, None while a shard of it is missing.

    Args:
        head: the record that was read, cut or whole.
        shards: the shards that were read, by key.
    """
    if head.shards is None:
        return head
    found = _found(head.key, head.shards, shards)
    if found is None:
        return None
    if isinstance(head, GroupRecord):
        plan = [shard for shard in found if isinstance(shard, GroupShard)]
        return replace(
            head,
            topics={name: topic for shard in plan for name, topic in shard.topics.items()},
            members=tuple(chain.from_iterable(shard.members for shard in plan)),
            shards=None,
        )
    parts = [shard for shard in found if isinstance(shard, MemberShard)]
    return replace(
        head,
        assigned=_union(shard.assigned for shard in parts),
        pending=_union(shard.pending for shard in parts),
        revoking=_union(shard.revoking for shard in parts),
        shards=None,
    )


def whole_text(key: Key, cut: Cut, shards: Mapping[Key, TextShard]) -> bytes | None:
    """The value of a record that was cut as text, None while a shard of it is missing.

    The same value may have been cut before to other sizes: shards of both do not make it.

    Args:
        key: the record's key.
        cut: the shards that its head names.
        shards: the shards that were read, by key.
    """
    found = _found(key, cut, shards)
    if found is None:
        return None
    value = "".join([shard.text for shard in found]).encode()
    return value if text_digest(value) == cut.digest else None


def _union(parts: Iterable[Partitions]) -> Partitions:
    union: dict[str, set[int]] = {}
    for part in parts:
        for topic, numbers in part.items():
            union.setdefault(topic, set()).update(numbers)
    return {topic: tuple(sorted(numbers)) for topic, numbers in union.items()}


class PlanShard(Declared, frozen=True, kw_only=True):
    """Shares of some members in a plan; several shards may have parts of one share."""

    KIND: ClassVar = "plan_shard"
    WORD: ClassVar = "p"
    KEY_FIELDS: ClassVar = ("group", "shard")

    group: Name
    shard: Whole
    """Number of the shard, from 0."""
    group_epoch: Epoch
    """Epoch of the plan."""
    digest: Name
    """The digest that the plan's record names."""
    assignments: Shares
    """Partitions by member: its `group.instance.id`, or its member id if it has none."""


def planned_assignments(
    plan: GroupRecord, shards: Mapping[int, PlanShard]
) -> Mapping[str, Partitions] | None:
    """Partitions by member in a plan; None if a shard is missing, or the plan has no shards.

    Args:
        plan: the plan's record.
        shards: the shards of its group that were read, by number.
    """
    if plan.assignments is None:
        return None
    found = [shards.get(number) for number in range(plan.assignments.count)]
    whole = [
        shard
        for shard in found
        if shard is not None
        and (shard.group_epoch, shard.digest) == (plan.group_epoch, plan.assignments.digest)
    ]
    if len(whole) < len(found):
        return None
    shares: dict[str, list[Partitions]] = {}
    for shard in whole:
        for member, share in shard.assignments.items():
            shares.setdefault(member, []).append(share)
    return {member: _union(parts) for member, parts in shares.items()}


def plan_shard_keys(group: str, numbers: Iterable[int]) -> list[Key]:
    """The keys of a group's shards, by their numbers."""
    return [("p", group, number) for number in numbers]
