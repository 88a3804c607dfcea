"""What is known of one group; how a batch changes it is told by `group_turn`.

Size, packed: half a kilobyte; 60 bytes a member; of each topic 12 bytes a partition, 5 more for who owns it, and 2 for each
layout of racks since the plan, of which `group_racks` keeps a few. Measured: 18.3 bytes a partition with ten members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from streaming.rules.event_time import UNKNOWN
from streaming.rules.skew import SkewRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.records import RacksEvidence
    from streaming.rules.event_time import Int64


Racks: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A member and what it owns."""

    name: str
    """The instance; of a member that has none, its member id."""
    rack: str | None
    capacity: float
    assigned: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a KIP-848 group: what it said of itself, and what the coordinator says it owns, each once it is known."""

    introduced: bool = False
    instance_id: str | None = None
    rack: str | None = None
    owned: Mapping[str, tuple[int, ...]] | None = None
    """By topic id: the topic may not be known yet, or no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who owned a topic's partitions at one moment."""

    members: tuple[tuple[str, str | None], ...] = ()
    """Those that own some: name and rack."""
    owner: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """By partition, an index of `members`; -1: nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A topic's replica racks, by partition, since `at`."""

    at: int
    racks: Racks
    planned: bool = False
    """Whether it is what the plan says that it rested on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """A group's lag in a topic at its last sample."""

    at: int
    lag: Int64
    """By partition."""
    seconds: float
    """For how long the record has waited that has waited longest."""
    committed_at: int
    """Of the newest commit; `UNKNOWN`: the group reads the topic by plan alone."""
    source: Mapping[str, int]
    ownership: Ownership


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A trigger that is published."""

    since: int
    evidence: RacksEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One group."""

    lags: Mapping[str, TopicLag] = field(default_factory=dict)
    """By topic."""
    committed: frozenset[str] = frozenset()
    """The topics in which the group has a commit, and"""
    by_plan: frozenset[str] = frozenset()
    """those that its standing plan covers: it reads both."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """By topic, the id that its layouts are of."""
    layouts: Mapping[str, tuple[Layout, ...]] = field(default_factory=dict)
    """By topic, from the last plan's to the newest."""
    racks_sources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By topic, then by "topic/partition" of the input: the offset of the record that its newest layout came with."""
    managed: Mapping[tuple[str, str], Owner] = field(default_factory=dict)
    """By instance and incarnation."""
    classic: tuple[Owner, ...] = ()
    consumer: Mapping[str, ConsumerMember] = field(default_factory=dict)
    """By member id. A group speaks one protocol at a time: where there is one, `classic` is empty."""
    planned_at: int = UNKNOWN
    """`inputs.metadata_at` of the newest plan."""
    heard: int = UNKNOWN
    """The newest time at which anybody said anything of its members or plan."""
    seen: Mapping[str, int] = field(default_factory=dict)
    """By "topic/partition", the offset of the newest record of it that was seen: what a replay must not be behind."""
    moment: int = UNKNOWN
    """The newest sample's time; judged when something later comes."""
    run: SkewRun = field(default_factory=SkewRun)
    racks: Standing | None = None

    @property
    def blank(self) -> bool:
        """Whether there is nothing to keep."""
        return not (
            self.lags
            or self.layouts
            or self.managed
            or self.classic
            or self.consumer
            or self.committed
            or self.by_plan
            or self.planned_at != UNKNOWN
        )
