"""Settings of the control: when it plans, how plans are limited, and how a group is planned."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the settings are validated by their annotations
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from levelwind.daemon.durations import PositiveSeconds, Seconds  # noqa: TC001 - the settings are validated by their annotations

Count = Annotated[int, Field(ge=0, le=10**15)]
"""A number of things; the bound keeps sums within 64 bits."""
Speed = Annotated[float, Field(ge=1e-6, allow_inf_nan=False)]
"""Records per second."""
Share = Annotated[float, Field(ge=0, le=1)]

EVERY = "*"
"""Stands for all topics without an entry of their own."""


class Cause(StrEnum):
    """Cause of a plan."""

    MEMBERSHIP = "membership"
    TOPICS = "topics"
    OPERATOR = "operator"
    RACKS = "racks"
    SKEW = "skew"


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownSettings:
    """The cooldown after a plan, and budgets of moves."""

    duration: Seconds = 10.0
    """Seconds after a plan for `racks` or `skew` before the same cause gets the next one; other
    plans hold back none. The pause doubles each time a plan for `skew` moves the same partitions
    once more after plans that achieved less than half of their expected gain."""
    max_duration: Seconds = 300.0
    """The longest pause, in seconds."""
    moves_per_hour: Mapping[Cause, Count] = field(default_factory=dict)
    """The most moves an hour by cause, `racks` or `skew`. A cause without an entry has no limit;
    plans for `membership`, `topics` and `operator` wait for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeSettings:
    """Limits beyond which planning is frozen: nothing that works is moved."""

    metadata_max_age: PositiveSeconds = 30.0
    """Seconds without an answer of the cluster about its layout."""
    clock_jump: PositiveSeconds = 5.0
    """Seconds by which the wall clock of the daemon's machine jumps ahead or back."""
    clock_rest: Seconds = 30.0
    """Seconds without another jump after which planning goes on."""
    rejected_share: Share = 0.5
    """Share of its input that the pipeline rejects between two of its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """Strategy of one group, with its options."""

    strategy: str
    """A name of `STRATEGIES`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the strategy."""
    record_bytes: Mapping[str, float] = field(default_factory=dict)
    """Bytes of a record by topic, `EVERY` for the others: with any of them, traffic across racks is
    weighed by the bytes that arrive; without, partitions are counted."""
    approval: bool = False
    """Whether plans that need not be made wait for an operator's approval."""
    begins_new: bool = True
    """Whether members read partitions that are new to the group from their beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """When groups are planned, and what a plan must gain."""

    strategy: str = "optimal"
    """The strategy of groups that name none."""
    settle: Seconds = 1.0
    """A plan for changed members or topics waits until nothing has changed for this many seconds,
    but no longer than `settle_max`."""
    settle_max: Seconds = 5.0
    """The most seconds that a plan waits for changes to settle."""
    min_gain: Share = 0.1
    """The share by which a triggered plan must lower the longest time to drain or the waiting (for
    `skew`), or the cross-rack share (for `racks`). A plan for `skew` must also save twice the
    waiting that its hand-over costs."""
    lag_max_age: Seconds = 600.0
    """A sample of lag that is older than this many seconds, by the daemon's wall clock, is not
    planned by: its topic counts as without lag, and the group is frozen."""
    freeze: FreezeSettings = field(default_factory=FreezeSettings)
    """Limits beyond which planning is frozen."""
    cooldown: CooldownSettings = field(default_factory=CooldownSettings)
    """The cooldown after a plan, and budgets of moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings:
    """What `levelwind_group_members_wanted` is computed by, for autoscalers of consumers."""

    drain_within: PositiveSeconds = 60.0
    """Seconds within which the members wanted are to drain what is behind, beside what arrives."""
    scale_down_after: Seconds = 300.0
    """Seconds for which fewer members must be wanted before the number falls, to the most that was
    wanted within this time."""
    min_members: Count = 1
    """The least members that are wanted."""
    max_members: Annotated[Count, Field(ge=1)] | None = None
    """The most members that are wanted, beside the number of partitions with work; None: no other
    limit."""
    member_speed: Speed | None = None
    """Records per second that a member reads; None: as learned from the group's members. While
    nothing was learned, a group is to keep the members that it has."""

    def within(self, members: int) -> int:
        """Return the number of members within the floor and the ceiling."""
        most = members if self.max_members is None else min(members, self.max_members)
        return max(most, self.min_members)
