"""Shards of records that are too large for one message.

Whoever writes a record that is cut writes the shards and then their head, the record without what
the shards hold: the planner in one transaction, the pipeline one after the other. So a reader that
meets the newest head has read its shards. Shards belong to a head that names their digest; a reader
without all of them keeps the last state that it had.

The assignment of a plan that members follow without a hand-over (`published`) is always in shards,
whatever its size: the plan's record is their head.
"""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records.cut import TextShard, shard_keys, text_digest
from levelwind.assignors.protocol.records.member import LAST_EPOCH
from levelwind.assignors.protocol.records.planned_group import (
    GroupRecord,
    PlannedMember,
    PlannedTopic,
    members_value,
    read_members,
)
from levelwind.assignors.protocol.records.planner import MemberAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records.cut import Cut
    from levelwind.assignors.protocol.records.metadata import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShard:
    """Some topics and members of a group's plan."""

    KIND: ClassVar = "group_shard"
    V: ClassVar = 1

    group: str
    shard: int
    """Number of the shard, from 0."""
    digest: str
    """The digest that the plan's record names."""
    topics: Mapping[str, PlannedTopic]
    members: tuple[PlannedMember, ...]

    @property
    def key(self) -> Key:
        return ("gs", self.group, self.shard)

    @property
    def head_key(self) -> Key:
        """Key of the record that the shard belongs to."""
        return ("g", self.group)

    def value(self) -> dict[str, object]:
        topics = {name: topic.value() for name, topic in self.topics.items()}
        return {
            "v": self.V,
            "digest": self.digest,
            "topics": topics,
            **members_value(self.members),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> GroupShard:
        _, group, shard = key
        return cls(
            group=str(group),
            shard=int(shard),
            digest=fields.text("digest"),
            topics=fields.by_name("topics", PlannedTopic.read),
            members=read_members(fields),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberShard:
    """Some partitions of a member's assignment."""

    KIND: ClassVar = "member_shard"
    V: ClassVar = 1

    group: str
    instance: str
    incarnation: str
    shard: int
    """Number of the shard, from 0."""
    digest: str
    """The digest that the member's record names."""
    assigned: Partitions
    pending: Partitions
    revoking: Partitions

    @property
    def key(self) -> Key:
        return ("ms", self.group, self.instance, self.incarnation, self.shard)

    @property
    def head_key(self) -> Key:
        """Key of the record that the shard belongs to."""
        return ("m", self.group, self.instance, self.incarnation)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "digest": self.digest,
            "assigned": ranges.texts(self.assigned),
            "pending": ranges.texts(self.pending),
            "revoking": ranges.texts(self.revoking),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> MemberShard:
        _, group, instance, incarnation, shard = key
        return cls(
            group=str(group),
            instance=str(instance),
            incarnation=str(incarnation),
            shard=int(shard),
            digest=fields.text("digest"),
            assigned=fields.partitions("assigned"),
            pending=fields.partitions("pending"),
            revoking=fields.partitions("revoking"),
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanShard:
    """Shares of some members in a plan; several shards may have parts of one share."""

    KIND: ClassVar = "plan_shard"
    V: ClassVar = 1

    group: str
    shard: int
    """Number of the shard, from 0."""
    group_epoch: int
    """Epoch of the plan."""
    digest: str
    """The digest that the plan's record names."""
    assignments: Mapping[str, Partitions]
    """Partitions by member: its `group.instance.id`, or its member id if it has none."""

    @property
    def key(self) -> Key:
        return ("p", self.group, self.shard)

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "group_epoch": self.group_epoch,
            "digest": self.digest,
            "assignments": {
                member: ranges.texts(share) for member, share in self.assignments.items()
            },
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> PlanShard:
        _, group, shard = key
        return cls(
            group=str(group),
            shard=int(shard),
            group_epoch=fields.integer("group_epoch", high=LAST_EPOCH),
            digest=fields.text("digest"),
            assignments=fields.partitions_by_name("assignments"),
        )


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
    shares: dict[str, dict[str, set[int]]] = {}
    for shard in whole:
        for member, share in shard.assignments.items():
            own = shares.setdefault(member, {})
            for topic, numbers in share.items():
                own.setdefault(topic, set()).update(numbers)
    return {
        member: {topic: tuple(sorted(numbers)) for topic, numbers in share.items()}
        for member, share in shares.items()
    }


def plan_shard_keys(group: str, numbers: Iterable[int]) -> list[Key]:
    """The keys of a group's shards, by their numbers."""
    return [("p", group, number) for number in numbers]
