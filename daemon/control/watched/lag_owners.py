"""Members, owners and readers as lag records name them: a group that subscribes. Pure."""

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
    """Rack of each member that is named, by name; of several the newest that is known.

    Members that own nothing are named where it is known what all members subscribe to.

    Args:
        lags: lag records of one group, by topic.
    """
    racks: dict[str, str | None] = {}
    for lag in sorted(lags.values(), key=lambda lag: (lag.at, lag.topic)):
        for names, known in ((lag.members, lag.member_racks), (lag.others, lag.other_racks)):
            for name, rack in zip(names, known or (None,) * len(names), strict=True):
                racks[name] = rack or racks.get(name)
    return racks


def subscriptions_in(lags: Mapping[str, LagRecord]) -> dict[str, frozenset[str]]:
    """The topics that each member reads, by its name: all, where its subscription is not known.

    Members that read the same mostly share one set.

    Args:
        lags: lag records of one group, by topic.
    """
    topics = frozenset(name for name, lag in lags.items() if not lag.left)
    unread: dict[str, set[str]] = {}
    for name in sorted(topics):
        for member in lags[name].non_readers:
            unread.setdefault(member, set()).add(name)
    return {
        member: topics - unread[member] if member in unread else topics
        for member in member_racks_in(lags)
    }
