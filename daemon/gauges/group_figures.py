"""Figures of one group that its gauges show. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.daemon.control.gain.demand import rates_of
from levelwind.daemon.control.gain.scaling import members_needed
from levelwind.daemon.shown_groups.measured_group import (
    ClusterLayout,
    ManagedMembers,
    MeasuredGroup,
    measured_group,
    subscribes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.problem.columns import Floats
    from levelwind.assignors.protocol.records import LagRecord
    from levelwind.daemon.control.gain.cross_rack import CrossRackShares
    from levelwind.daemon.control.settings import ScalingSettings
    from levelwind.daemon.control.snapshot import GroupLag
    from levelwind.daemon.control.state.control_facts import ControlFacts, GroupFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFigures:
    """A group's lag in one topic."""

    topic: str
    at: int
    """Time of the sample in milliseconds since the epoch."""
    lag: int | None
    """Records behind, over the partitions whose lag is known; None where that of none is."""
    largest_lag: int | None
    """Records behind in that partition of these that is furthest behind."""
    seconds: float | None
    """Seconds for which the next record has been waiting, at most; None where not known."""
    committed: int | None
    """Sum of the committed offsets; partitions without a commit are left out."""
    end: int | None
    """Sum of the ends; partitions whose end is not known are left out."""
    record: LagRecord | None
    """The sample itself, where its partitions are shown; else None."""

    @classmethod
    def of(cls, record: LagRecord, *, keep: bool) -> TopicFigures:
        """Add up a sample; keep it if its partitions are shown."""
        return cls(
            topic=record.topic,
            at=record.at,
            lag=record.total_lag,
            largest_lag=max((lag for lag in record.known_lag if lag is not None), default=None),
            seconds=record.longest_wait,
            committed=_sum_of_offsets(record.committed),
            end=_sum_of_offsets(record.known_end),
            record=record if keep else None,
        )


def _sum_of_offsets(offsets: Sequence[int | None]) -> int | None:
    """Sum of the offsets that are known; None where none is."""
    known = [offset for offset in offsets if offset is not None and offset >= 0]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """What the gauges of a group show, but for its age and its hand-over."""

    topics: tuple[TopicFigures, ...]
    unclaimed: int
    """Partitions that nobody claims."""
    upper_bounds: int
    """Partitions whose lag may count control records and aborted records."""
    wait_lower_bounds: int
    """Partitions of whose wait only a lower bound is known."""
    lag: GroupLag
    crossing: CrossRackShares
    members: int
    """Live members, or those that lag records name if they subscribe."""
    speed: float | None
    """Records per second of a member, on average; None while none is known."""
    needed: int | None
    """Members that the group needs by this sample; see `members_needed`. None where the lag of no
    partition is known."""


def figures_of(
    group: GroupFacts,
    control: ControlFacts,
    scaling: ScalingSettings,
    *,
    last_speed: float | None = None,
    keep: bool = False,
) -> GroupFigures:
    """Compute the figures of a group. Cost: its partitions.

    Args:
        group: the group.
        control: the control that it is of, for the layouts of topics and the brokers.
        scaling: the settings that members are counted by.
        last_speed: records per second of a member when a speed was last known.
        keep: whether the samples are kept, to show their partitions.
    """
    layout = ClusterLayout(control.topics, control.deleted_topics, control.brokers)
    lags = group.lags()
    measured = measured_group(lags, layout, _managed_members(group, lags), group.speeds)
    members = max(len(group.live), len(measured.capacity))
    speed = scaling.member_speed or _mean_speed(measured) or last_speed
    behind, rate = _work(measured.lags)
    lag = measured.lag
    return GroupFigures(
        topics=tuple(
            TopicFigures.of(record, keep=keep) for _, record in sorted(measured.lags.items())
        ),
        unclaimed=measured.unclaimed,
        upper_bounds=measured.upper_bounds,
        wait_lower_bounds=measured.wait_lower_bounds,
        lag=lag,
        crossing=measured.crossing,
        members=members,
        speed=speed,
        needed=None
        if lag.total is None
        else members_needed(behind, rate, members, speed, scaling, unknown=lag.unknown),
    )


def _managed_members(group: GroupFacts, lags: Mapping[str, LagRecord]) -> ManagedMembers | None:
    """The live members; None where the group subscribes."""
    owners = group.ledger.owning_instances()
    if subscribes(group.plan, lags, has_managed_members=bool(group.live or owners)):
        return None
    return ManagedMembers(
        owners=owners,
        racks={member.instance: member.rack for member in group.live},
        capacity={member.instance: member.capacity for member in group.live},
    )


def _mean_speed(measured: MeasuredGroup) -> float | None:
    """Mean records per second of the live members; of those that left where none is live."""
    drain, speeds = measured.lag.drain, measured.speeds
    if drain is not None and not drain.assumed:
        return drain.capacity / len(measured.lag.capacities)
    return sum(speeds.values()) / len(speeds) if speeds else None


def _work(lags: Mapping[str, LagRecord]) -> tuple[Floats, Floats]:
    """Lag and arrivals by partition, of all topics."""
    if not lags:
        return np.zeros(0), np.zeros(0)
    records = list(lags.values())
    behind = np.concatenate([np.array(record.lag, np.float64) for record in records])
    return behind, np.concatenate([rates_of(record) for record in records])
