"""Time, context that all groups share while one event is handled, and log events. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.handover.timers import Timers
    from levelwind.assignors.protocol.records import TopicRecord
    from levelwind.daemon.control.freeze.freeze_reason import FreezeReason
    from levelwind.daemon.control.members.members_clock import MembersClocks
    from levelwind.daemon.control.settings import ControlSettings


class LogEvent(NamedTuple):
    """An event for the log, with its fields."""

    event: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time at which an event is handled."""

    now: float
    """Boot seconds, to decide by."""
    at: int
    """Wall clock, milliseconds since the epoch, to write down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlContext:
    """Settings, layouts and time that all groups share while one event is handled."""

    settings: ControlSettings
    timers: Timers
    topics: Mapping[str, TopicRecord]
    """The layouts of the topics that are known, by name."""
    deleted_topics: frozenset[str]
    """Topics that were deleted, as opposed to topics that are not known yet."""
    planner_epoch: int
    members_clocks: MembersClocks
    """Clocks of the partitions of `levelwind.members`."""
    now: float
    """Boot seconds."""
    at: int
    """Wall clock, milliseconds since the epoch. Records carry it; the only decisions that depend on
    it are whether a sample of lag is too old, and how much of a cooldown is left after a start."""
    frozen: Mapping[FreezeReason, str] = field(default_factory=dict)
    """Why planning is frozen for all groups; empty while it is not."""

    def time_of(self, group: str) -> PlannerTime:
        """Return the time of this step for a group."""
        return self.members_clocks.time_of(group, self.now)
