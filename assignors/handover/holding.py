"""Partitions that one incarnation may be using: granted, or revoked and not yet given up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from assignors.protocol import partition_ranges as ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import MemberAssignment, Partitions


class Traits(NamedTuple):
    """Properties of a member that are published with its assignment.

    `capacity` is relative to the other members.
    """

    rack: str | None
    capacity: float


UNKNOWN_TRAITS = Traits(rack=None, capacity=1.0)


class Revocation(NamedTuple):
    """A grant that the planner took back and the member has not given up yet.

    `since` is the time of the revocation, in seconds of the planner's monotonic clock.
    """

    grant_epoch: int
    revoke_epoch: int
    since: float

    def ended_by(self, acked_epoch: int) -> bool:
        """Whether an announcement at this epoch, without the partition, proves the grant over."""
        return acked_epoch >= self.revoke_epoch > self.grant_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Partitions that one incarnation may be using, and the last record published about it."""

    granted: Mapping[TopicPartition, int]
    """Grant epoch of each partition that the incarnation owns by the newest epoch."""
    revoking: Mapping[TopicPartition, Revocation]
    """Partitions that the incarnation must give up. Invariant: none of them is in `granted`."""
    traits: Traits = UNKNOWN_TRAITS
    published: MemberAssignment | None = None
    """The last published record; None before the first, and for a recovered eviction."""
    evicted: bool = False
    """Whether the planner took everything back without the member's consent."""
    free_at: float | None = None
    """When the wait after a read-back eviction ends; None before it was read back."""
    left: bool = False
    """Whether the incarnation announced that it gave up everything."""

    @property
    def gone(self) -> bool:
        """Whether only the published record is left, to be ended with a tombstone."""
        return self.left or (self.evicted and not self.granted and not self.revoking)

    def freed(self) -> Holding:
        """The holding without any partition."""
        return replace(self, granted={}, revoking={})

    def acknowledged(self, acked_epoch: int, owned: Partitions) -> Holding:
        """The holding after the incarnation announced what it owns."""
        still_owned = ranges.pairs(owned)
        revoking = {
            partition: revocation
            for partition, revocation in self.revoking.items()
            if partition in still_owned or not revocation.ended_by(acked_epoch)
        }
        return self if len(revoking) == len(self.revoking) else replace(self, revoking=revoking)

    def advance_to(
        self,
        share: frozenset[TopicPartition],
        free: frozenset[TopicPartition],
        epoch: int,
        now: float,
    ) -> Holding:
        """The holding as of `epoch`.

        The incarnation keeps granted partitions of its `share`, must give up the others, and gets
        the `free` ones: those of its share that nobody holds.
        """
        lost = self.granted.keys() - share
        if not lost and not free:
            return self
        kept = dict.fromkeys(free, epoch)
        kept.update(
            (partition, granted_at)
            for partition, granted_at in self.granted.items()
            if partition not in lost
        )
        revoked = {partition: Revocation(self.granted[partition], epoch, now) for partition in lost}
        return replace(self, granted=kept, revoking={**self.revoking, **revoked})


EMPTY = Holding(granted={}, revoking={})


def recover_holding(record: MemberAssignment, now: float) -> Holding:
    """The holding that a published record describes."""
    # The record has no epochs of single partitions. Its own epoch is at or above each of them, and
    # an acknowledgement of it proves what acknowledgements of theirs would.
    epoch = record.member_epoch
    evicted = record.state == "evicted"
    return Holding(
        granted=dict.fromkeys(ranges.pairs(record.assigned), epoch),
        revoking=dict.fromkeys(ranges.pairs(record.revoking), Revocation(epoch - 1, epoch, now)),
        traits=Traits(record.rack, record.capacity),
        published=None if evicted else record,
        evicted=evicted,
    )
