"""Snapshot of a watched group: its members and owners as lag records or the proxy name them. Pure.

Lag records name the members by `group.instance.id`, or by member id where there is none: those that
own a partition of the topic, those that own nothing, and those that do not read the topic. Where
the subscription of one member is not known, only the owners are named, and each counts as reading
all topics of the group; whoever applies a plan leaves out what a member does not read. Of a group
that the leader proxy leads, each rebalance says all this sooner.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from levelwind.daemon.control.members.live_member import Basis, Profile
from levelwind.daemon.control.members.proxied_members import owners_among
from levelwind.daemon.control.snapshot import GroupSnapshot
from levelwind.daemon.control.watched.lag_owners import (
    EQUAL_CAPACITY,
    member_racks_in,
    owners_in,
    subscriptions_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import LagRecord


class WatchedSnapshot(GroupSnapshot):
    """A watched group and its topics, as one decision sees them."""

    @cached_property
    def members(self) -> Mapping[str, Profile]:
        """The members that are known, by name, with the topics whose layouts are."""
        racks = (
            member_racks_in(self.fresh_lags)
            if (proxied := self.group.proxied) is None
            else {name: member.rack for name, member in proxied.items()}
        )
        known = {topics: topics & self.context.topics.keys() for topics in self._subscription_sets}
        return {
            name: Profile(
                topics=known[self._subscriptions[name]],
                rack=rack,
                priority=0,
                capacity=EQUAL_CAPACITY,
            )
            for name, rack in sorted(racks.items())
        }

    @cached_property
    def _subscriptions(self) -> Mapping[str, frozenset[str]]:
        """The topics that each member reads, by name, whether their layouts are known or not."""
        if (proxied := self.group.proxied) is not None:
            return {name: member.topics for name, member in proxied.items()}
        return subscriptions_in(self.fresh_lags)

    @cached_property
    def _subscription_sets(self) -> frozenset[frozenset[str]]:
        """The different subscriptions: mostly one."""
        return frozenset(self._subscriptions.values())

    @cached_property
    def fresh_lags(self) -> Mapping[str, LagRecord]:
        """The lag that counts, without samples that are older than `control.lag_max_age`."""
        oldest = self.context.at - self.context.settings.lag_max_age * 1000
        return {name: lag for name, lag in self.current_lags.items() if lag.at >= oldest}

    @cached_property
    def basis(self) -> Basis:
        """Basis of a plan made now."""
        return Basis.of(self.members, self._read, self.context.topics)

    @cached_property
    def _read(self) -> frozenset[str]:
        """The topics that the group reads, whether their layouts are known or not."""
        return frozenset().union(*self._subscription_sets)

    def reads(self, topic: str) -> bool:
        """Whether any member subscribes to a topic."""
        return topic in self._read

    @cached_property
    def owners(self) -> Mapping[TopicPartition, str]:
        """The member that owns each partition."""
        if (proxied := self.group.proxied) is not None:
            return owners_among(proxied)
        return self.seen_owners

    @cached_property
    def seen_owners(self) -> Mapping[TopicPartition, str]:
        """The member that owns each partition as the pipeline sees it, which raises triggers.

        It learns of a rebalance later than the proxy that leads it.
        """
        return owners_in(self.fresh_lags)

    @cached_property
    def capacity(self) -> Mapping[str, float]:
        """The capacity of each member, by name."""
        return {name: member.capacity for name, member in self.members.items()}
