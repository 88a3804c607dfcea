"""What one incarnation may be using: a partition that is granted, or that it has not given up yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from assignors.protocol import partition_ranges as ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.partition_ranges import TopicPartition
    from assignors.protocol.records import MemberAssignment, Partitions


class Traits(NamedTuple):
    """What the readers of an assignment want to know of its member."""

    rack: str | None
    capacity: float


UNKNOWN_TRAITS = Traits(rack=None, capacity=1.0)


class Revocation(NamedTuple):
    """A grant that was taken back and not yet given up."""

    grant_epoch: int
    revoke_epoch: int
    since: float

    def ended_by(self, acked_epoch: int) -> bool:
        """Whether an announcement without the partition proves that this grant is over."""
        return acked_epoch >= self.revoke_epoch > self.grant_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one incarnation may be using, and what was last published about it."""

    granted: Mapping[TopicPartition, int]
    """Each partition's grant epoch."""
    revoking: Mapping[TopicPartition, Revocation]
    traits: Traits = UNKNOWN_TRAITS
    published: MemberAssignment | None = None
    evicted: bool = False
    free_at: float | None = None
    """When an eviction that was read back has been waited out."""
    left: bool = False

    @property
    def gone(self) -> bool:
        """Nothing of it is left but its record, which is to end with a tombstone."""
        return self.left or (self.evicted and not self.granted and not self.revoking)

    def freed(self) -> Holding:
        """The holding with nothing in it."""
        return replace(self, granted={}, revoking={})

    def acknowledged(self, acked_epoch: int, owned: Partitions) -> Holding:
        """The holding after the incarnation said what it owns."""
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
        """The holding after `epoch`: it keeps what is in its share, gives up the rest, gets what is free."""
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
    """The holding that a record tells of."""
    # The epochs of single partitions are not in the record. Its own epoch is at or above each of them, and the
    # member's acknowledgement of it proves what theirs would.
    epoch = record.member_epoch
    evicted = record.state == "evicted"
    return Holding(
        granted=dict.fromkeys(ranges.pairs(record.assigned), epoch),
        revoking=dict.fromkeys(ranges.pairs(record.revoking), Revocation(epoch - 1, epoch, now)),
        traits=Traits(record.rack, record.capacity),
        published=None if evicted else record,
        evicted=evicted,
    )
