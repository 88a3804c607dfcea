"""Watch over a group's demand: overload and unsplittable partitions, each logged once. Pure.

An episode of overload begins once arrivals have exceeded what the members can read for
`OVERLOAD_SECONDS`, and ends when they are clearly below it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from levelwind.assignors.protocol.partition_ranges import TopicPartition
from levelwind.daemon.control.context import LogEvent

if TYPE_CHECKING:
    from levelwind.daemon.control.gain.demand import GroupDemand

CHECK_SECONDS = 5.0
"""Time between two looks at the demand of a group; it costs the group's partitions."""

OVERLOAD_SECONDS = 10.0
"""Time for which arrivals must exceed the capacity to be called an overload."""

RELIEVED_SHARE = 0.95
"""Share of the capacity below which the arrivals must fall to end an episode."""


class DemandWatch(Struct, frozen=True, kw_only=True):
    """State of the watch; times are boot seconds."""

    checked_at: float = float("-inf")
    """Time of the last look."""
    sampled_at: int | None = None
    """Time of the newest sample that was looked at, in milliseconds since the epoch."""
    exceeded_since: float | None = None
    """Time since which arrivals exceed the capacity; None while they do not."""
    overloaded: bool = False
    """Whether the episode was logged."""
    members_wanted: int | None = None
    """Members that the arrivals want; None while the group is not overloaded."""
    unsplittable: frozenset[TopicPartition] = frozenset()
    """Partitions that were logged as unsplittable."""

    def due(self, sampled_at: int | None, now: float) -> bool:
        """Whether the demand is to be looked at: there is a newer sample, and time has passed."""
        newer = sampled_at is not None and sampled_at != self.sampled_at
        return newer and now - self.checked_at >= CHECK_SECONDS

    def due_at(self, sampled_at: int | None) -> float:
        """Return the time from which `due` holds; infinite without a newer sample."""
        newer = sampled_at is not None and sampled_at != self.sampled_at
        return self.next_at if newer else float("inf")

    @property
    def next_at(self) -> float:
        """Time of the next look, where there is a newer sample by then."""
        return self.checked_at + CHECK_SECONDS

    @property
    def quiet(self) -> bool:
        """Whether no overload has begun."""
        return self.exceeded_since is None and self.members_wanted is None

    def checked_moderate(self, sampled_at: int | None, now: float) -> DemandWatch:
        """Take in that the demand of a group is surely moderate, while the watch is quiet."""
        return replace(self, checked_at=now, sampled_at=sampled_at)

    def checked(
        self, group: str, demand: GroupDemand | None, sampled_at: int | None, now: float
    ) -> tuple[DemandWatch, list[LogEvent]]:
        """Take in the demand of the group with this name."""
        watch = replace(self, checked_at=now, sampled_at=sampled_at)
        if demand is None:
            return replace(watch, exceeded_since=None, overloaded=False, members_wanted=None), []
        watch, events = _watch_overload(watch, group, demand, now)
        watch, more = _watch_heaviest(watch, group, demand)
        return watch, [*events, *more]


def _watch_overload(
    watch: DemandWatch, group: str, demand: GroupDemand, now: float
) -> tuple[DemandWatch, list[LogEvent]]:
    if demand.members_wanted is None:
        relieved = demand.arrivals < RELIEVED_SHARE * demand.capacity or demand.assumed
        if watch.overloaded and not relieved:
            return watch, []
        return replace(watch, exceeded_since=None, overloaded=False, members_wanted=None), []
    since = now if watch.exceeded_since is None else watch.exceeded_since
    known = watch.overloaded
    watch = replace(watch, exceeded_since=since)
    if now - since < OVERLOAD_SECONDS:
        return watch, []
    watch = replace(watch, overloaded=True, members_wanted=demand.members_wanted)
    fields = {
        "group": group,
        "arrivals": round(demand.arrivals, 1),
        "capacity": round(demand.capacity, 1),
        "lag": round(demand.backlog),
        "members_wanted": demand.members_wanted,
    }
    return watch, [] if known else [LogEvent("group.overloaded", fields)]


def _watch_heaviest(
    watch: DemandWatch, group: str, demand: GroupDemand
) -> tuple[DemandWatch, list[LogEvent]]:
    heaviest = demand.heaviest
    if heaviest is None or not demand.unsplittable:
        return watch, []
    partition = (heaviest.topic, heaviest.number)
    if partition in watch.unsplittable:
        return watch, []
    fields = {
        "group": group,
        "topic": heaviest.topic,
        "partition": heaviest.number,
        "lag": heaviest.lag,
        "seconds": round(heaviest.seconds, 1) if heaviest.seconds != float("inf") else None,
        "horizon": round(demand.horizon, 1),
    }
    watch = replace(watch, unsplittable=watch.unsplittable | {partition})
    return watch, [LogEvent("partition.unsplittable", fields)]
