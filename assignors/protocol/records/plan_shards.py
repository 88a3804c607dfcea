"""Shards of the assignment in a plan that members follow without a hand-over (`published`).

The planner writes the shards and then the plan's record, which names their number and digest, in
one transaction. So a reader that meets the record has read its shards. A reader without all of
them keeps the last plan that it had.
"""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records.member import LAST_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.protocol.json_fields import Fields
    from assignors.protocol.partition_ranges import Partitions
    from assignors.protocol.records.metadata import Key
    from assignors.protocol.records.planned_group import GroupRecord


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
