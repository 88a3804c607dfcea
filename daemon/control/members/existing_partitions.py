"""Announced partitions that exist: what else a member names would only cost time. Pure.

A few bytes name a million partitions, and each announcement repeats them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from levelwind.assignors.protocol.partition_ranges import Partitions, TopicPartition
    from levelwind.assignors.protocol.records import MemberRecord, TopicRecord


UNKNOWN_PARTITIONS = 10_000
"""Most partitions of topics without a known layout that are believed of one announcement."""


def existing_only(
    record: MemberRecord,
    topics: Mapping[str, TopicRecord],
    granted: Callable[[], Iterable[TopicPartition]],
) -> MemberRecord:
    """Return an announcement without partitions that no topic has.

    Of topics whose layout is not known, the partitions stay that the group's ledger names, for what
    a member does not name it has given up, and `UNKNOWN_PARTITIONS` others.

    Args:
        record: the announcement.
        topics: the layouts that are known, by topic.
        granted: returns the partitions that the group's ledger names.
    """
    if _all_exist(record.owned, topics) and (
        not record.starting or _all_exist(record.starting, topics)
    ):
        return record
    return replace(
        record,
        owned=_existing(record.owned, topics, granted),
        starting=_existing(record.starting, topics, granted),
    )


def _all_exist(partitions: Partitions, topics: Mapping[str, TopicRecord]) -> bool:
    for topic, numbers in partitions.items():
        layout = topics.get(topic)
        if layout is None or (numbers and numbers[-1] >= layout.partitions):
            return False
    return True


def _existing(
    partitions: Partitions,
    topics: Mapping[str, TopicRecord],
    granted: Callable[[], Iterable[TopicPartition]],
) -> Partitions:
    named: dict[str, set[int]] = {}
    if not partitions.keys() <= topics.keys():
        for topic, number in granted():
            named.setdefault(topic, set()).add(number)
    left = UNKNOWN_PARTITIONS
    existing: dict[str, tuple[int, ...]] = {}
    for topic, numbers in partitions.items():
        if topic in topics:
            existing[topic] = numbers[: bisect_left(numbers, topics[topic].partitions)]
        else:
            believed = named.get(topic, set()).intersection(numbers) | set(numbers[:left])
            left = max(left - len(numbers), 0)
            existing[topic] = tuple(sorted(believed))
    return {topic: numbers for topic, numbers in existing.items() if numbers}
