"""Pace of planning: how many plans a step may make, by what the last ones took.

A plan with its transaction takes milliseconds, for a large group seconds, and whatever else the
planner does waits for it. So a step gets as many plans as fit into a slice of time.
"""

from __future__ import annotations

from levelwind.daemon.control.state.plan_backlog import PlanBudget

SLICE_SECONDS = 0.25
"""Time that the plans of one step should take, with publishing them."""

FIRST_PLAN_SECONDS = 0.02
"""Time that a plan is taken to need before any was made."""

LONGEST_PLAN_SECONDS = 1.0
"""Longest time of a plan that is learned from: publishing may have waited for the brokers."""

WEIGHT = 0.3
"""Weight of the newest step in the means."""


class PlanningPace:
    """Mean time of a plan, and of the pause between two ticks."""

    def __init__(self, every: float) -> None:
        """Begin with usual times; `every`: seconds from one tick to the next."""
        self._plan = FIRST_PLAN_SECONDS
        self._every = every
        self._ticked_at: float | None = None

    @property
    def budget(self) -> PlanBudget:
        """How many plans the steps until the next tick may make."""
        return PlanBudget(plans=max(1, int(SLICE_SECONDS / self._plan)), every=self._every)

    def ticked(self, now: float) -> None:
        """Note that a tick begins; `now` is in monotonic seconds."""
        if self._ticked_at is not None:
            self._every += WEIGHT * (now - self._ticked_at - self._every)
        self._ticked_at = now

    def planned(self, plans: int, seconds: float) -> None:
        """Learn from a step that made some plans in some seconds."""
        if plans:
            each = min(seconds / plans, LONGEST_PLAN_SECONDS)
            self._plan += WEIGHT * (each - self._plan)
