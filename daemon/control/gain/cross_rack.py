"""Cross-rack reads of a group: nominal, and as brokers let consumers fetch. Pure.

Nominally a member reads a partition within its rack where the rack has a replica. In effect it does
so only where the partition's leader names the nearest replica (KIP-392,
`replica.selector.class`); otherwise it fetches from the leader, whichever rack that is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import BrokerRecord, TopicRecord


class CrossRackShares(NamedTuple):
    """Shares of a group's partitions that are read from another rack."""

    nominal: float | None
    """Share without a replica in the owner's rack; None where no racks are known."""
    effective: float | None
    """Share that the owner fetches from another rack; None where that is not known."""


class RackRead(NamedTuple):
    """How one partition is read."""

    partition: TopicPartition
    nominal: bool
    """Whether no replica is in the owner's rack."""
    effective: bool | None
    """Whether the owner fetches it from another rack; None where that is not known."""


def cross_rack_shares(
    owners: Mapping[TopicPartition, str],
    member_racks: Mapping[str, str | None],
    topics: Mapping[str, TopicRecord],
    brokers: Mapping[int, BrokerRecord],
) -> CrossRackShares:
    """Count the partitions that are read from another rack. Cost: the group's partitions.

    Args:
        owners: the instance that owns each partition.
        member_racks: rack of each member, by instance; None where it has none.
        topics: the layouts that are known, by name.
        brokers: the brokers that are known, by id.
    """
    known = nominal = effective = unknown = 0
    for read in rack_reads(owners, member_racks, topics, brokers):
        known += 1
        nominal += read.nominal
        effective += read.effective is True
        unknown += read.effective is None
    if not known:
        return CrossRackShares(None, None)
    return CrossRackShares(nominal / known, None if unknown else effective / known)


def rack_reads(
    owners: Mapping[TopicPartition, str],
    member_racks: Mapping[str, str | None],
    topics: Mapping[str, TopicRecord],
    brokers: Mapping[int, BrokerRecord],
) -> Iterator[RackRead]:
    """Yield how each partition is read, where racks are known on both sides.

    The arguments are those of `cross_rack_shares`.
    """
    for (topic, number), instance in owners.items():
        layout, rack = topics.get(topic), member_racks.get(instance)
        if layout is None or rack is None or number >= layout.partitions:
            continue
        racks = layout.racks[number]
        if not racks:
            continue
        remote = rack not in racks
        leader = brokers.get(layout.leader[number])
        effective: bool | None = None
        if leader is not None and leader.follower_fetching is not None:
            effective = remote if leader.follower_fetching else leader.rack != rack
        yield RackRead((topic, number), remote, effective)
