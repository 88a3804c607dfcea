"""The lag of a group that counts now, and the part of each member. Pure.

Decisions, metrics and `describe` read lag through this module alone, so that they show the same skew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignors.problem.member_load import lag_by_member, skew_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import LagRecord, TopicRecord


def current_lags(
    lags: Mapping[str, LagRecord],
    topics: Mapping[str, TopicRecord],
    deleted_topics: Collection[str] = (),
) -> dict[str, LagRecord]:
    """Leave out the lag of topics that were deleted, or recreated under another id, since the sample.

    The lag of a topic whose layout is not known counts: nothing contradicts the sample.

    Args:
        lags: the newest lag records of a group, by topic.
        topics: the layouts that are known, by topic.
        deleted_topics: names of topics that are known to be deleted.
    """
    return {
        name: record
        for name, record in lags.items()
        if name not in deleted_topics and (name not in topics or topics[name].id == record.id)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """The lag of a group and of its members."""

    total: int
    """Records behind, over all partitions, owned or not."""
    oldest_at: int | None
    """Time of the oldest sample, milliseconds since the epoch; None without a sample."""
    members: Mapping[str, int]
    """Records behind of each member, by instance."""
    skew: float | None
    """The largest load (lag over capacity) over the mean load; None where no member has lag."""

    @property
    def largest_share(self) -> float | None:
        """The part of the group's lag that its most behind member has; None without lag or members."""
        return max(self.members.values()) / self.total if self.members and self.total else None


def group_lag(
    lags: Mapping[str, LagRecord],
    owners: Mapping[TopicPartition, str],
    capacity: Mapping[str, float],
) -> GroupLag:
    """Add up the lag of a group by member. Cost: its partitions.

    Args:
        lags: the lag that counts, by topic: see `current_lags`.
        owners: the instance that owns each partition; owners without a capacity are left out.
        capacity: of each member, by instance.
    """
    index = {instance: number for number, instance in enumerate(capacity)}
    rows = [
        (record.lag[number], index[instance])
        for (topic, number), instance in owners.items()
        if instance in index
        and (record := lags.get(topic)) is not None
        and number < len(record.lag)
    ]
    lag, owner = np.array(rows, np.int64).reshape(-1, 2).T
    behind = lag_by_member(lag, owner, len(index))
    return GroupLag(
        total=sum(sum(record.lag) for record in lags.values()),
        oldest_at=min((record.at for record in lags.values()), default=None),
        members=dict(zip(index, map(int, behind), strict=True)),
        skew=skew_of(behind / np.array(list(capacity.values()), np.float64)),
    )
