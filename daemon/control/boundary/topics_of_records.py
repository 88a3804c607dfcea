"""Records of a decision as they are written: each with its topic, and cut if too large. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from levelwind.assignors.protocol.records import (
    GroupRecord,
    MemberAssignment,
    ProposalRecord,
    Tombstone,
)
from levelwind.assignors.protocol.records.cut import shard_keys
from levelwind.assignors.protocol.records.cutting import cut
from levelwind.assignors.protocol.records.shards import plan_shard_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.records import Key, Record
    from levelwind.assignors.protocol.records.cut import Cut
    from levelwind.assignors.protocol.topics import TopicKind


class WrittenRecords(NamedTuple):
    """Records to write in one transaction, and the shards of the group once they are written."""

    entries: tuple[tuple[TopicKind, Record | Tombstone], ...]
    shards: Mapping[Key, int]
    """Number of shards of each record of the group that is cut, by its key."""


def written(records: Iterable[Record | Tombstone], shards: Mapping[Key, int]) -> WrittenRecords:
    """Return the records to write for the records of one group's decision.

    Args:
        records: the records, whole.
        shards: number of shards that the last records of the group were cut into, by their keys.
    """
    entries: list[tuple[TopicKind, Record | Tombstone]] = []
    after = dict(shards)
    for record in records:
        match record:
            case GroupRecord() | MemberAssignment():
                parts = cut(record)
                entries += [("assignments", part) for part in parts]
                entries += _ended_shards(record.key, len(parts) - 1, after.pop(record.key, 0))
                if len(parts) > 1:
                    after[record.key] = len(parts) - 1
                if isinstance(record, GroupRecord):
                    entries += _ended_plan_shards(record.group, record.assignments, after)
            case Tombstone(key=("operator" | "proposal", _)) | ProposalRecord():
                entries.append(("control", record))
            case Tombstone(key=("g", group)):
                entries.append(("assignments", record))
                entries += _ended_shards(record.key, 0, after.pop(record.key, 0))
                entries += _ended_plan_shards(str(group), None, after)
            case Tombstone():
                # A member that died cannot take back its announcement; if it stayed, the member
                # would join again at every start.
                entries += [("assignments", record), ("members", record)]
                entries += _ended_shards(record.key, 0, after.pop(record.key, 0))
            case _:
                entries.append(("assignments", record))
    return WrittenRecords(tuple(entries), after)


def _ended_shards(key: Key, first: int, end: int) -> list[tuple[TopicKind, Tombstone]]:
    """Tombstones of the shards that the last record with a key had and the new one has not."""
    return [("assignments", Tombstone(shard)) for shard in shard_keys(key, range(first, end))]


def _ended_plan_shards(
    group: str, assignments: Cut | None, shards: dict[Key, int]
) -> list[tuple[TopicKind, Tombstone]]:
    """Tombstones of the shards that the last plan's assignment had and the new one has not.

    Args:
        group: the group's name.
        assignments: the reference to the shards of the new assignment; None: it has none.
        shards: number of shards by key, which gets the new number.
    """
    count = 0 if assignments is None else assignments.count
    before = shards.pop(("p", group), 0)
    if count:
        shards["p", group] = count
    return [("assignments", Tombstone(key)) for key in plan_shard_keys(group, range(count, before))]
