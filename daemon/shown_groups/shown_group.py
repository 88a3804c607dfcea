"""A group as it is shown: its records, and all that follows from them, each computed once. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records.shards import planned_assignments
from levelwind.daemon.shown_groups.measured_group import (
    ClusterLayout,
    ManagedMembers,
    MeasuredGroup,
    measured_group,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.shown_groups.group_view import GroupView


class PlannedFigures(NamedTuple):
    """How far a watched group is as planned."""

    partitions: int
    """Partitions of the plan."""
    as_planned: int
    """Those that their planned member owns."""


class ShownGroup:
    """A group until its next record."""

    def __init__(self, records: GroupView) -> None:
        self.records = records

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.records.name

    @cached_property
    def measured(self) -> MeasuredGroup:
        """The group with the lag that counts, and what that adds up to."""
        records = self.records
        layout = ClusterLayout(records.topics, records.deleted_topics, records.brokers)
        managed = None if records.watched else self._managed_members()
        return measured_group(records.lags, layout, managed, records.learned)

    def _managed_members(self) -> ManagedMembers:
        assigned = self.records.assigned.values()
        active = [each for each in assigned if each.state == "active"]
        return ManagedMembers(
            owners={
                partition: each.instance
                for each in active
                for partition in ranges.pairs(each.assigned)
            },
            racks=self._assigned_racks(),
            capacity={each.instance: each.capacity for each in active},
        )

    def _assigned_racks(self) -> dict[str, str | None]:
        # Of an instance's lives the active one, if there is any, says where it is.
        lives = sorted(self.records.assigned.values(), key=lambda each: each.state == "active")
        return {each.instance: each.rack for each in lives}

    @property
    def racks(self) -> Mapping[str, str | None]:
        """Rack of each member, by instance; does not look at the partitions of managed members."""
        return self.measured.racks if self.records.watched else self._assigned_racks()

    @cached_property
    def moving(self) -> frozenset[TopicPartition]:
        """The partitions that are being handed over."""
        if self.records.watched:
            return frozenset()
        return frozenset(
            partition
            for each in self.records.assigned.values()
            for share in (each.pending, each.revoking)
            for partition in ranges.pairs(share)
        )

    @property
    def left_topics(self) -> list[str]:
        """Names of the topics that the group has committed in and that no member reads."""
        return sorted(name for name, record in self.measured.lags.items() if record.left)

    @cached_property
    def planned(self) -> Mapping[TopicPartition, str] | None:
        """The instance that the plan of a watched group gives each partition; None without one."""
        if self.records.plan is None:
            return None
        shares = planned_assignments(self.records.plan, self.records.plan_shards)
        return None if shares is None else ranges.owners(shares)

    @property
    def planned_figures(self) -> PlannedFigures | None:
        """How far a watched group is as planned; None where no plan states an assignment."""
        if self.planned is None:
            return None
        owners = self.measured.owners
        as_planned = sum(owners.get(each) == member for each, member in self.planned.items())
        return PlannedFigures(len(self.planned), as_planned)
