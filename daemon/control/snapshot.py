"""Snapshot of a group: the facts that one decision needs, and the load of its members. Pure.

Decisions, metrics and `describe` read lag through this module alone, so that they show the same
load.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.drain import (
    DrainFigures,
    drain_figures,
    load_seconds,
    resolve_capacities,
    sum_by_member,
)
from levelwind.daemon.control.gain.demand import GroupDemand, group_demand, learned_speeds, rates_of
from levelwind.daemon.control.policy import excess

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import LagRecord, MemberRecord, TopicRecord
    from levelwind.daemon.control.context import ControlContext
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.members.live_member import Basis, Profile


def current_lags(
    lags: Mapping[str, LagRecord],
    topics: Mapping[str, TopicRecord],
    deleted_topics: Collection[str] = (),
) -> dict[str, LagRecord]:
    """Leave out the lag of topics that were deleted or recreated since the sample.

    A recreated topic has another id. The lag of a topic whose layout is not known counts: nothing
    contradicts the sample.

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

    total: int | None
    """Records behind, over all partitions whose lag is known, owned or not; None where that of no
    partition is."""
    unknown: int
    """Partitions whose lag is not known, which is in no sum: without a sample though somebody owns
    them, or with one that does not say it. They weigh nothing in loads."""
    oldest_at: int | None
    """Time of the oldest sample, milliseconds since the epoch; None without a sample."""
    members: Mapping[str, int | None]
    """Records behind of each member, by instance, as `total` counts them."""
    unknown_of: Mapping[str, int]
    """The partitions of each member whose lag is not known, by instance; it has none: missing."""
    loads: Mapping[str, float]
    """Load of each member in seconds, by instance."""
    capacities: Mapping[str, float]
    """Records per second that each member can read, by instance; see `DrainFigures.assumed`."""
    drain: DrainFigures | None
    """The load of the group with its parts; None without members."""

    @property
    def skew(self) -> float | None:
        """The largest load over the mean load; None where no member has any."""
        return None if self.drain is None else self.drain.skew

    @property
    def drain_seconds(self) -> float | None:
        """The largest load of a member in seconds; None without lag, arrivals or members."""
        return self.drain.heaviest if self.drain is not None and self.drain.mean else None

    @property
    def best_drain_seconds(self) -> float | None:
        """The least that `drain_seconds` is under any plan; None where there is none."""
        return self.drain.best if self.drain is not None and self.drain.mean else None

    @property
    def largest_share(self) -> float | None:
        """The largest member's share of the group's lag; None without lag or members."""
        most = max((lag for lag in self.members.values() if lag is not None), default=None)
        return most / self.total if most is not None and self.total else None


def group_lag(
    lags: Mapping[str, LagRecord],
    owners: Mapping[TopicPartition, str],
    capacity: Mapping[str, float],
    speeds: Mapping[str, float] = MappingProxyType({}),
) -> GroupLag:
    """Add up the lag and the load of a group by member. Cost: its partitions.

    Args:
        lags: the lag that counts, by topic: see `current_lags`.
        owners: the instance that owns each partition; an owner without a capacity owns nothing.
        capacity: announced capacity of each member, by instance.
        speeds: learned records per second of the members, by instance.
    """
    index = {instance: number for number, instance in enumerate(capacity)}
    unsaid, unsampled = _unknown(lags, owners)
    rows = [
        (record.lag[number], rate, index.get(owners.get((topic, number), ""), -1))
        for topic, record in lags.items()
        for number, rate in enumerate(rates_of(record).tolist())
    ]
    lag, rate, owned = np.array(rows, np.float64).reshape(-1, 3).T
    owner = owned.astype(np.int64)
    behind, arriving = (sum_by_member(column, owner, len(index)) for column in (lag, rate))
    capacities = resolve_capacities(
        np.array(list(capacity.values()), np.float64),
        np.array([speeds.get(instance, np.nan) for instance in capacity], np.float64),
        float(lag.sum()),
        float(rate.sum()),
        pace=arriving,
        lag=behind,
    )
    drain, loads = None, np.zeros(0)
    if index:
        drain = drain_figures(
            lag, rate, owner, capacities.records_per_second, assumed=capacities.assumed
        )
        loads = load_seconds(behind, arriving, capacities.records_per_second, drain.horizon)
    unknown_of = Counter(owners[each] for each in (*unsaid, *unsampled) if each in owners)
    owned_by = Counter(owners.values()) if unknown_of else unknown_of
    return GroupLag(
        # A partition whose lag is not known has 0 in its column.
        total=sum(sum(record.lag) for record in lags.values()) if len(rows) > len(unsaid) else None,
        unknown=len(unsaid) + len(unsampled),
        oldest_at=min((record.at for record in lags.values()), default=None),
        members={
            instance: None if 0 < unknown_of[instance] == owned_by[instance] else int(records)
            for instance, records in zip(index, behind, strict=True)
        },
        unknown_of=unknown_of,
        loads=dict(zip(index, loads.tolist(), strict=True)),
        capacities=dict(zip(index, capacities.records_per_second.tolist(), strict=True)),
        drain=drain,
    )


def _unknown(
    lags: Mapping[str, LagRecord], owners: Mapping[TopicPartition, str]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Partitions whose sample does not say their lag, and owned ones without a sample."""
    unsaid = [
        (topic, number) for topic, record in lags.items() for number in record.unknown_partitions
    ]
    sampled = {topic: len(record.lag) for topic, record in lags.items()}
    return unsaid, [each for each in owners if each[1] >= sampled.get(each[0], 0)]


def known_speeds(lag: GroupLag) -> Mapping[str, float]:
    """Return what a plan takes each member to read per second, by instance.

    Empty while no speed is known: capacities that are assumed fit only the group as it is.
    """
    return {} if lag.drain is None or lag.drain.assumed else lag.capacities


@dataclass(frozen=True)
class GroupSnapshot:
    """A group and its topics, as one decision sees them.

    Each value is computed once, on first use: most decisions use none, since nothing is due.
    """

    group: ManagedGroup
    context: ControlContext

    @cached_property
    def members(self) -> Mapping[str, MemberRecord | Profile]:
        """What the live members announced, by instance."""
        return self.group.members

    @cached_property
    def capacity(self) -> Mapping[str, float]:
        """The capacity of the live members, by instance."""
        return self.group.capacity

    @cached_property
    def basis(self) -> Basis:
        """Basis of a plan made now."""
        return self.group.basis_of(self.context.topics)

    @cached_property
    def topics(self) -> Mapping[str, TopicRecord]:
        """The layouts of the topics that live members subscribe to and that are known, by name."""
        return {name: self.context.topics[name] for name in self.basis.topics}

    @cached_property
    def missing_topics(self) -> list[str]:
        """Topics of the plan in force whose layout is missing though they were not deleted.

        A plan without them would revoke their partitions. Where nobody has any, the topic may have
        been deleted so long ago that nothing says so any more.
        """
        missing = {
            name
            for name in (self.group.plan.topics if self.group.plan else {})
            if name not in self.context.topics
            and name not in self.context.deleted_topics
            and self.reads(name)
        }
        return sorted(missing & {topic for topic, _ in self.owners}) if missing else []

    def reads(self, topic: str) -> bool:
        """Whether any live member subscribes to a topic, by its name or by a pattern."""
        return self.group.reads(topic)

    @cached_property
    def owners(self) -> Mapping[TopicPartition, str]:
        """The instance that may be using each partition."""
        return self.group.owners()

    @cached_property
    def current_lags(self) -> Mapping[str, LagRecord]:
        """The lag that counts, by topic: none of topics that were deleted or recreated since."""
        return current_lags(self.group.lags, self.context.topics, self.context.deleted_topics)

    @cached_property
    def stale_lags(self) -> Mapping[str, LagRecord]:
        """The lag of `topics` that is older than `control.lag_max_age`, by topic."""
        oldest = self.context.at - self.context.settings.lag_max_age * 1000
        return {
            name: lag
            for name, lag in self.current_lags.items()
            if name in self.topics and lag.at < oldest
        }

    @cached_property
    def lags(self) -> Mapping[str, LagRecord]:
        """The lag that counts of `topics`, by topic: the lag that a plan is made from."""
        return {
            name: lag
            for name, lag in self.current_lags.items()
            if name in self.topics and name not in self.stale_lags
        }

    @cached_property
    def lag(self) -> GroupLag:
        """The lag and the load of the group now."""
        speeds = learned_speeds(self.group.speeds)
        return group_lag(self.current_lags, self.owners, self.capacity, speeds)

    @cached_property
    def speeds(self) -> Mapping[str, float]:
        """Records per second of each member, by instance; empty while no speed is known."""
        return known_speeds(self.lag)

    @cached_property
    def excess(self) -> float:
        """Seconds by which a load exceeds what it would be if all loads were level."""
        return excess(self.lag.drain)

    @cached_property
    def demand(self) -> GroupDemand | None:
        """What the partitions ask of the live members."""
        return group_demand(self.lags, self.capacity, self.speeds)

    @cached_property
    def lag_at(self) -> int | None:
        """Time of the newest sample of lag, milliseconds since the epoch; None without one."""
        return self.group.lag_at

    @cached_property
    def metadata_at(self) -> int:
        """Time of the newest layout that a plan made now rests on, milliseconds since the epoch."""
        return max((topic.at for topic in self.topics.values()), default=0)
