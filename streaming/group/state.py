"""State of one group between batches; `update` changes it.

Where it is kept, and what it takes there, is the matter of `bucket.state`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from levelwind.streaming.messages.lag_json import Claim
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.skew import SkewRun
from levelwind.streaming.rules.speed import NO_COMMIT, WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.records import RacksEvidence
    from levelwind.streaming.rules.event_time import Int64


Racks: TypeAlias = tuple[tuple[str, ...], ...]
"""Racks of a topic's replicas, indexed by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A member and the partitions that it owns."""

    name: str
    """The instance id; the member id of a member that has no instance id."""
    rack: str | None
    capacity: float
    assigned: Mapping[str, tuple[int, ...]]
    """Partitions by topic."""
    topics: frozenset[str] | None = None
    """Topics that it subscribes to; None: they are not known, as those of managed members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a KIP-848 group, assembled from two records of the coordinator.

    Its metadata and its current assignment are separate records and may arrive in either order.
    """

    has_metadata: bool = False
    """Whether the member's metadata was read; without it `owned` alone is known."""
    instance_id: str | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    """Topics that it subscribes to by name."""
    regex: str | None = None
    """Expression that it subscribes to besides."""
    owned: Mapping[str, tuple[int, ...]] | None = None
    """Partitions by topic id; None until an assignment is read. Its topic may not be known yet,
    or no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOwners:
    """The owners and readers of a topic's partitions at the time of one sample."""

    members: tuple[tuple[str, str | None], ...] = ()
    """Name and rack of each member that owns a partition of the topic."""
    owner: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """Index into `members`, by partition; -1: the partition has no owner."""
    others: tuple[tuple[str, str | None], ...] = ()
    """Name and rack of each member that owns nothing of any topic. Invariant: empty unless the
    subscriptions of all members are known."""
    non_readers: tuple[str, ...] = ()
    """Names of the members, owners and others, that do not subscribe to the topic. Invariant: as
    for `others`."""
    claim: Claim = Claim.COMMITTED
    """What the members claim beside what they own."""

    @property
    def named(self) -> tuple[object, ...]:
        """All but `owner`: equal where the same members stand to the topic in the same way."""
        return self.members, self.others, self.non_readers, self.claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Replica racks of a topic from a time on."""

    at: int
    """Milliseconds since the epoch at which the observer first saw this layout."""
    racks: Racks
    from_plan: bool = False
    """Whether the plan itself names this layout as the one that it was computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """A group's lag in a topic at its newest sample."""

    at: int
    """Milliseconds since the epoch at which the end offsets were sampled."""
    lag: Int64
    """Records that wait for the group, by partition; see `LagSample`."""
    rate: Int64
    """Records that arrive in `RATE_SCALE` seconds, by partition."""
    seconds: float
    """Age of the oldest unread record of the topic that counts; see `LagSample`."""
    committed_at: int
    """Time of the newest commit; `UNKNOWN`: the group has none in the topic."""
    source: Mapping[str, int]
    """Offset up to which the input was read for this sample, by "topic/partition"."""
    owners: PartitionOwners


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSpeed:
    """What is known of a member's speed; the fields are those of `SpeedColumns`."""

    since: int = UNKNOWN
    latest: int = UNKNOWN
    records: int = 0
    behind: int = 0
    shown: int = NO_COMMIT
    windows: tuple[float, ...] = (0.0,) * WINDOWS
    published: float = 0.0
    published_windows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RacksTrigger:
    """The published trigger of a group whose topics' replica racks have changed."""

    since: int
    """Milliseconds since the epoch at which the first of the changes was seen."""
    evidence: RacksEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One group: its topics, its members, and the triggers that are active.

    The group reads the topics of `committed_topics`, of `planned_topics` and of `member_topics`.
    Invariant: `lags` and `layouts` hold no other topics once a batch is finished.
    """

    lags: Mapping[str, TopicLag] = field(default_factory=dict)
    """By topic; a topic has none before its first sample."""
    committed_topics: frozenset[str] = frozenset()
    """Topics in which the group has a committed offset."""
    planned_topics: frozenset[str] = frozenset()
    """Topics that the group's current plan covers."""
    member_topics: frozenset[str] = frozenset()
    """Topics that members which its coordinator knows subscribe to, or have partitions of."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """By topic, the id of the topic that its layouts are of; another id means a recreated topic."""
    layouts: Mapping[str, tuple[Layout, ...]] = field(default_factory=dict)
    """By topic, oldest first: the layout of the last plan, then those seen since. Never empty."""
    racks_sources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By topic, then by "topic/partition" of the input: the offset of the record that brought its
    newest layout."""
    managed_members: Mapping[tuple[str, str], Owner] = field(default_factory=dict)
    """Members that levelwind assigns, by instance and incarnation. The coordinator's do not count
    beside them."""
    classic_members: tuple[Owner, ...] = ()
    """Members of a classic group. Invariant: empty where `consumer_members` is not."""
    consumer_members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    """Members of a KIP-848 group, by member id."""
    regex_topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By expression that members of a KIP-848 group subscribe to, the topics that it matches."""
    shards: Mapping[str, str] = field(default_factory=dict)
    """Values of the shards whose head was not read yet, by their keys, both as JSON. The planner
    writes shards and head in one transaction: mostly there are none."""
    plan_metadata_at: int = UNKNOWN
    """The greatest `metadata_at` of a plan; layouts up to that time are the plan's or older."""
    last_record_at: int = UNKNOWN
    """The greatest time of a record about the group's members or plan."""
    newest_offsets: Mapping[str, int] = field(default_factory=dict)
    """Offset of the newest such record, by "topic/partition"; a replay must not be behind it."""
    sampled_at: int = UNKNOWN
    """The time of the newest sample. It is evaluated for skew once something later is read."""
    speeds: Mapping[str, LearnedSpeed] = field(default_factory=dict)
    """By instance, what is known of the speeds of members, also of some that have left."""
    speeds_at: int = UNKNOWN
    """The time of the published speeds; `UNKNOWN`: none are."""
    skew_run: SkewRun = field(default_factory=SkewRun)
    """For how long the group's lag has been skewed, and whether its trigger is active."""
    racks_trigger: RacksTrigger | None = None
    """The active trigger; None while the racks are those of the plan."""

    @property
    def blank(self) -> bool:
        """Whether there is nothing to keep: a group of no topics, members and plan has no state."""
        return not (
            self.lags
            or self.layouts
            or self.managed_members
            or self.classic_members
            or self.consumer_members
            or self.committed_topics
            or self.planned_topics
            or self.shards
            or self.plan_metadata_at != UNKNOWN
        )
