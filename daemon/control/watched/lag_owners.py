"""Members and owners as lag records name them: what is known of a group that subscribes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import LagRecord

EQUAL_CAPACITY = 1.0
"""Capacity of each member: nobody announces another. Learned speeds count beside it."""


def owners_in(lags: Mapping[str, LagRecord]) -> dict[TopicPartition, str]:
    """The member that owns each partition. Cost: the partitions of the topics.

    Args:
        lags: lag records of one group, by topic.
    """
    return {
        (name, number): lag.members[index]
        for name, lag in lags.items()
        for number, index in enumerate(lag.owner or ())
        if index >= 0
    }


def member_racks_in(lags: Mapping[str, LagRecord]) -> dict[str, str | None]:
    """Rack of each member that owns a partition, by name; of several the newest that is known.

    Args:
        lags: lag records of one group, by topic.
    """
    racks: dict[str, str | None] = {}
    for lag in sorted(lags.values(), key=lambda lag: (lag.at, lag.topic)):
        known = lag.member_racks or (None,) * len(lag.members)
        for name, rack in zip(lag.members, known, strict=True):
            racks[name] = rack or racks.get(name)
    return racks
