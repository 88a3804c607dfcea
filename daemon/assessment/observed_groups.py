"""What the brokers answered: groups, members, commits and log ends, at several times. Pure.

Times are seconds of one monotonic clock, which count from nowhere: only differences mean anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from levelwind.daemon.observer.cluster_state import ClusterState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.access.role_rights import Right

STABLE, EMPTY, REBALANCING, UNKNOWN_STATE = "stable", "empty", "rebalancing", "unknown"
"""States of groups; only in the first one each member has what it was assigned."""
CLASSIC, CONSUMER_PROTOCOL = "classic", "consumer"
"""Types of groups: of the classic protocol, and of KIP-848."""
STREAMS = "stream"
"""Assignor of the members of a Kafka Streams application."""


class MemberDetail(NamedTuple):
    """What a member's own subscription says."""

    rack: str | None
    """Its `client.rack`; None where it has none."""
    topics: tuple[str, ...] | None
    """Topics that it subscribes to; None where the coordinator does not list them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group, as its coordinator describes it."""

    id: str
    instance: str | None
    """Its `group.instance.id`; None for a dynamic member."""
    client: str
    """Its client id."""
    host: str
    owned: frozenset[TopicPartition]
    """The partitions that it was assigned."""
    detail: MemberDetail | None = None
    """None where its subscription is not known."""

    @property
    def name(self) -> str:
        """Its name in plans."""
        return self.instance or self.id

    @property
    def rack(self) -> str | None:
        """Its rack; None where it has none or that is not known."""
        return self.detail.rack if self.detail else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group, as its coordinator describes it."""

    type: str
    """`classic`, `consumer` (KIP-848), or empty where the brokers do not tell."""
    state: str
    assignor: str
    """Assignor that its members agreed on; empty where they have none now."""
    members: tuple[GroupMember, ...]
    coordinator: tuple[str, int] | None = None
    """Host and port of its coordinator."""

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """The name of the member that owns each partition."""
        return {owned: member.name for member in self.members for owned in member.owned}

    @property
    def read_topics(self) -> frozenset[str]:
        """Topics that its members subscribe to, or where that is not known, own something of."""
        known = [member.detail.topics for member in self.members if member.detail]
        subscribed = {topic for topics in known if topics for topic in topics}
        return frozenset(subscribed | {topic for topic, _ in self.owners})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReading:
    """A group at one time."""

    at: float
    """When its commits were answered."""
    group: GroupDescription | None
    """None where the group could not be described."""
    commits: Mapping[TopicPartition, int] | None
    """Committed offsets; None where they could not be read."""
    ends_read_at: float = 0.0
    """When the ends were asked for: within about a second after `at`."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Log ends that could be read, of what this and other groups read. No commit is newer."""


class WholeReading(NamedTuple):
    """A reading in which the group was described and its commits were read."""

    at: float
    group: GroupDescription
    commits: Mapping[TopicPartition, int]
    ends_read_at: float
    ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSample:
    """All groups at about one time."""

    at: float
    """When the last group was read."""
    groups: Mapping[str, GroupReading]

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """All log ends that could be read."""
        return {
            partition: end
            for reading in self.groups.values()
            for partition, end in reading.ends.items()
        }

    def with_details(self, details: Mapping[tuple[str, str], MemberDetail]) -> ClusterSample:
        """The sample with what members subscribe to, by group and member id."""
        return replace(
            self,
            groups={name: _detailed(name, one, details) for name, one in self.groups.items()},
        )


class Lack(NamedTuple):
    """A right that this user lacks, and what would be known with it."""

    right: Right
    loss: str
    """What is not known without it: the end of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObservation:
    """Everything that was read, of which an assessment is made."""

    at_ms: int
    """Time of the newest sample, in milliseconds since the epoch."""
    layout: ClusterState = field(default_factory=ClusterState)
    """Brokers and topics."""
    samples: tuple[ClusterSample, ...]
    """In the order of their times; at least one."""
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Begins of the logs."""
    record_bytes: Mapping[str, float] = field(default_factory=dict)
    """Mean bytes of a stored record by topic, where the brokers tell the sizes of logs."""
    retention_minutes: int | None = None
    """`offsets.retention.minutes`; None where it may not be read."""
    old: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of partitions that groups without members have committed: the first offset that was written
    within the last half of that time; the log end where none was."""
    lacks: tuple[Lack, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    """What could not be asked, by group or by other name, and why."""
    details_unknown: str | None = None
    """Why no subscription could be read; None where they could."""

    @property
    def seconds(self) -> float:
        """Time between the first and the last sample."""
        return self.samples[-1].at - self.samples[0].at

    def readings(self, group: str) -> list[WholeReading]:
        """The whole readings of a group."""
        found = (sample.groups.get(group) for sample in self.samples)
        return [
            WholeReading(one.at, one.group, one.commits, one.ends_read_at, one.ends)
            for one in found
            if one and one.group is not None and one.commits is not None
        ]


def unique(lacks: Iterable[Lack]) -> tuple[Lack, ...]:
    """Each lack once, in their order."""
    return tuple(dict.fromkeys(lacks))


def _detailed(
    name: str, reading: GroupReading, details: Mapping[tuple[str, str], MemberDetail]
) -> GroupReading:
    if reading.group is None:
        return reading
    members = tuple(
        replace(member, detail=details.get((name, member.id))) for member in reading.group.members
    )
    return replace(reading, group=replace(reading.group, members=members))
