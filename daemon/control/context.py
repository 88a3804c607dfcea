"""What a decision about a group is made in, and what is said of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.handover.timers import Timers
    from assignors.protocol.records import TopicRecord
    from daemon.control.settings import ControlSettings


class LogEvent(NamedTuple):
    """An event for the log, with its fields."""

    event: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlContext:
    """What all groups share at one moment."""

    settings: ControlSettings
    timers: Timers
    topics: Mapping[str, TopicRecord]
    deleted_topics: frozenset[str]
    """Topics that were deleted, as opposed to those that are not known yet."""
    planner_epoch: int
    now: float
    """Monotonic seconds."""
    at: int
    """Wall clock, milliseconds since the epoch; for the records, never for a decision."""
