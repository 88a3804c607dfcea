"""What a group adds up to: its lag, its members' loads, and what is read across racks. Pure.

Commands, the API and the metrics measure a group here, from the records of its topics or from facts
about the control, so that all show the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from levelwind.daemon.control.gain.cross_rack import CrossRackShares, cross_rack_shares
from levelwind.daemon.control.gain.demand import learned_speeds
from levelwind.daemon.control.snapshot import GroupLag, current_lags, group_lag
from levelwind.daemon.control.watched.lag_owners import EQUAL_CAPACITY, member_racks_in, owners_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import (
        BrokerRecord,
        GroupRecord,
        LagRecord,
        SpeedRecord,
        TopicRecord,
    )


class ManagedMembers(NamedTuple):
    """Members of a group that levelwind manages, by instance."""

    owners: Mapping[TopicPartition, str]
    """The instance that owns each partition, or may still own it."""
    racks: Mapping[str, str | None]
    capacity: Mapping[str, float]
    """The announced capacity of each member that is planned for."""


class ClusterLayout(NamedTuple):
    """What is known of the cluster."""

    topics: Mapping[str, TopicRecord]
    """The layouts of topics, by name."""
    deleted_topics: Collection[str]
    brokers: Mapping[int, BrokerRecord]
    """The brokers, by id."""


@dataclass(frozen=True, kw_only=True)
class MeasuredGroup:
    """A group with the lag that counts; each figure is computed once, when it is first asked for.

    Cost: the partitions of the group.
    """

    lags: Mapping[str, LagRecord]
    """The lag that counts, by topic: without topics deleted or recreated since the sample."""
    layout: ClusterLayout
    managed: ManagedMembers | None
    """The members; None where the group subscribes, so that lag records alone name them."""
    learned: SpeedRecord | None
    """The newest record of the members' learned speeds."""

    @cached_property
    def owners(self) -> Mapping[TopicPartition, str]:
        """The instance that owns each partition, or may still own it."""
        return owners_in(self.lags) if self.managed is None else self.managed.owners

    @cached_property
    def racks(self) -> Mapping[str, str | None]:
        """Rack of each member, by instance."""
        return member_racks_in(self.lags) if self.managed is None else self.managed.racks

    @property
    def capacity(self) -> Mapping[str, float]:
        """Capacity of each member, by instance."""
        if self.managed is None:
            return dict.fromkeys(sorted(self.racks), EQUAL_CAPACITY)
        return self.managed.capacity

    @cached_property
    def speeds(self) -> Mapping[str, float]:
        """Learned speeds that are sure enough, in records per second by instance."""
        return learned_speeds(self.learned)

    @cached_property
    def lag(self) -> GroupLag:
        """The lag of the group and of each member, with their loads."""
        return group_lag(self.lags, self.owners, self.capacity, self.speeds)

    @cached_property
    def crossing(self) -> CrossRackShares:
        """Shares of the partitions read from another rack: nominal, and as brokers let members."""
        return cross_rack_shares(self.owners, self.racks, self.layout.topics, self.layout.brokers)

    @property
    def unclaimed(self) -> int:
        """Partitions that nobody claims."""
        return sum(len(record.unclaimed_partitions) for record in self.lags.values())

    @property
    def upper_bounds(self) -> int:
        """Partitions whose lag may count control records and aborted records."""
        return sum(len(record.lag_upper_bound) for record in self.lags.values())

    @property
    def wait_lower_bounds(self) -> int:
        """Partitions of whose wait only a lower bound is known."""
        return sum(len(record.least_waits) for record in self.lags.values())


def subscribes(
    plan: GroupRecord | None, lags: Mapping[str, LagRecord], *, has_managed_members: bool
) -> bool:
    """Whether lag records alone name a group's members.

    The last plan of a managed group stays, and tells nothing once its consumers subscribe again.

    Args:
        plan: the group's plan; None: it has none.
        lags: its lag records, by topic.
        has_managed_members: whether members that levelwind manages are known.
    """
    if plan is not None and plan.mode != "managed":
        return True
    if has_managed_members:
        return False
    return plan is None or any(record.members or record.others for record in lags.values())


def measured_group(
    newest: Mapping[str, LagRecord],
    layout: ClusterLayout,
    managed: ManagedMembers | None,
    learned: SpeedRecord | None,
) -> MeasuredGroup:
    """Return a group, from the newest lag record of each topic; the rest as in `MeasuredGroup`."""
    lags = current_lags(newest, layout.topics, layout.deleted_topics)
    return MeasuredGroup(lags=lags, layout=layout, managed=managed, learned=learned)
