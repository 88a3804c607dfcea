"""Readable time: for how long the daemon could read the announcements of a group. Pure.

The daemon writes a canary into each partition of `levelwind.members` and reads it back. Everything
that the partition held when a canary was sent has been handled when the canary comes back, and only
the time between two canaries that came back counts as silence of a member. An outage, a daemon that
stands still and a reader that receives nothing make nobody silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from levelwind.assignors.handover.planner_time import PlannerTime
from levelwind.assignors.protocol.topics import partition_for

CANARIES_APART = 2.0
"""Intervals between canaries that count at most between two that came back: what is longer was an
interruption."""


class MembersClock(Struct, frozen=True, kw_only=True):
    """The readable time of one partition of `levelwind.members`."""

    read_until: float
    """Boot seconds: everything that the partition held at this time has been handled."""
    readable: float = 0.0
    """Seconds for which the partition could be read since the daemon leads."""

    def read(self, asked_at: float, canary: float) -> MembersClock:
        """The clock after a canary came back that was sent at `asked_at`.

        Args:
            asked_at: Boot seconds.
            canary: Seconds between two canaries.
        """
        if asked_at <= self.read_until:
            return self
        passed = min(asked_at - self.read_until, CANARIES_APART * canary)
        return replace(self, read_until=asked_at, readable=self.readable + passed)


class MembersClocks(Struct, frozen=True, kw_only=True):
    """The clocks of all partitions of `levelwind.members`."""

    partitions: int
    """Number of partitions of the topic."""
    clocks: Mapping[int, MembersClock]
    """The clock of each partition, from the time at which the daemon leads."""

    @classmethod
    def start(cls, partitions: int, now: float) -> MembersClocks:
        """The clocks of a daemon that has just read everything."""
        clocks = {number: MembersClock(read_until=now) for number in range(partitions)}
        return cls(partitions=partitions, clocks=clocks)

    def read(self, partition: int, asked_at: float, canary: float) -> MembersClocks:
        """The clocks after a canary came back from a partition; unknown partitions are ignored."""
        if partition not in self.clocks:
            return self
        after = self.clocks[partition].read(asked_at, canary)
        return replace(self, clocks={**self.clocks, partition: after})

    def partition_of(self, group: str) -> int:
        """The partition that the announcements of a group are in."""
        return _partition(group, self.partitions)

    def readable_in(self, partition: int) -> float:
        """The readable time of a partition; 0 as long as the daemon does not lead."""
        clock = self.clocks.get(partition)
        return 0.0 if clock is None else clock.readable

    def time_of(self, group: str, now: float) -> PlannerTime:
        """The time of a step for a group, by the clock of its partition."""
        clock = self.clocks.get(_partition(group, self.partitions))
        if clock is None:  # the daemon does not lead yet
            return PlannerTime(now=now, readable=0.0, read_until=float("-inf"))
        return PlannerTime(now, clock.readable, clock.read_until)


@lru_cache(maxsize=100_000)
def _partition(group: str, partitions: int) -> int:
    return partition_for(group, partitions)
