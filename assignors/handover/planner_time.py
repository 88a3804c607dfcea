"""Time of one step of the planner, as the partition of a group's announcements gives it."""

from __future__ import annotations

from msgspec import Struct


class PlannerTime(Struct, frozen=True):
    """The time at which the planner takes a step for one group."""

    now: float
    """Seconds of the boot clock. Waits that protect a new owner are measured in them."""
    readable: float
    """Seconds for which the planner could read the group's announcements, from any beginning.

    Silence and patience are measured in them: a member is not silent while nobody listens.
    """
    read_until: float
    """Boot seconds: every announcement that was written before this time has been handled."""
