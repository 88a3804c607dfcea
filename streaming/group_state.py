"""What is known of one group; how a batch changes it is told by `group_turn`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streaming.skew import SkewRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from assignors.protocol.records import RacksEvidence

    Ints: TypeAlias = npt.NDArray[np.int64]

Racks: TypeAlias = tuple[tuple[str, ...], ...]

NOTHING = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A member and what it owns."""

    name: str
    """The instance; of a classic member without one, its member id."""
    rack: str | None
    capacity: float
    assigned: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A topic's replica racks, by partition, since `at`."""

    at: int
    racks: Racks


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """A group's lag in a topic at its last sample."""

    at: int
    lag: Ints
    """By partition."""
    source: Mapping[str, int]


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
    ids: Mapping[str, str] = field(default_factory=dict)
    """By topic, the id that its layouts are of."""
    layouts: Mapping[str, tuple[Layout, ...]] = field(default_factory=dict)
    """By topic, from the last plan's to the newest."""
    racks_source: Mapping[str, int] = field(default_factory=dict)
    managed: Mapping[tuple[str, str], Owner] = field(default_factory=dict)
    """By instance and incarnation."""
    classic: tuple[Owner, ...] = ()
    planned_at: int = NOTHING
    """`inputs.metadata_at` of the newest plan."""
    moment: int = NOTHING
    """The newest sample's time; judged when something later comes."""
    run: SkewRun = field(default_factory=SkewRun)
    racks: Standing | None = None

    @property
    def owners(self) -> tuple[Owner, ...]:
        """The members of a managed group, else those that the coordinator knows."""
        return tuple(owner for _, owner in sorted(self.managed.items())) or self.classic

    @property
    def blank(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self.lags or self.layouts or self.managed or self.classic or self.planned_at != NOTHING)
