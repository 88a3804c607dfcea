"""Backlog of plans: the groups that wait for one, and whose turn it is. Pure.

A plan takes milliseconds, for a large group seconds, and everything else waits meanwhile:
heartbeats, evictions and the hand-overs of other groups. So a step makes only as many plans as its
budget allows, and the other groups wait here. They are served by need: partitions that nobody
reads come first, then requests of operators, then the most records that wait. Every fourth plan
goes to the group that has waited longest, so that each group has its plan at the latest when four
times as many plans were made as groups waited before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.group_records import newest_figures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from levelwind.daemon.control.context import ControlContext
    from levelwind.daemon.control.managed_group import ManagedGroup

LONGEST_FIRST_EVERY = 4
"""Of so many plans one goes to the group that has waited longest."""

LOGGED_DELAY_SECONDS = 2.0
"""A delay that is expected to be shorter is not logged."""


class PlanBudget(NamedTuple):
    """The pace at which plans are made."""

    plans: int
    """The most plans of one step."""
    every: float
    """Seconds from one tick to the next."""


class Need(NamedTuple):
    """Need of a group for its plan; the greatest is served first."""

    unowned: int
    """Partitions of the group that no live member may read."""
    requested: bool
    """Whether an operator asks for the plan."""
    waiting: int
    """Records behind."""


def need_of(group: ManagedGroup, context: ControlContext) -> Need:
    """Return a group's need for a plan."""
    if group.plan is not None:
        partitions = sum(topic.partitions for topic in group.plan.topics.values())
    else:
        read = {name for live in group.live.values() for name in live.record.topics}
        partitions = sum(context.topics[name].partitions for name in read & context.topics.keys())
    owned = sum(
        len(holding.granted)
        for incarnation, holding in group.ledger.holdings.items()
        if incarnation in group.live
    )
    return Need(
        # Of a group without announcements the coordinator sees to that each partition is read.
        unowned=max(partitions - owned, 0) if group.live else 0,
        requested=group.operator is not None,
        waiting=sum(sum(lag.lag) for lag in newest_figures(group) or group.lags.values()),
    )


@dataclass(slots=True)
class Waiting:
    """A group that waits for its plan."""

    since: float
    """Boot seconds."""
    since_at: int
    """Wall clock, milliseconds since the epoch."""
    group: ManagedGroup | None = None
    """The group for which the need was found; None before."""
    need: Need | None = None


class PlanBacklog:
    """The groups that wait for a plan, for the control's thread alone."""

    def __init__(self) -> None:
        self.waiting: dict[str, Waiting] = {}
        """By name of the group, the longest wait first."""
        self.computed = 0
        """Number of plans that were computed so far."""
        self._by_need = 0
        """Number of groups taken by need since one was taken by its wait."""
        self._since: float | None = None
        """Boot seconds since which groups wait whose delay was logged."""
        self._logged_delay = 0.0
        """The delay that was logged last, in seconds; 0 before."""
        self._computed_before = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def __contains__(self, name: object) -> bool:
        return name in self.waiting

    def add(self, name: str, context: ControlContext) -> None:
        """Let a group wait, unless it does already."""
        if name not in self.waiting:
            self.waiting[name] = Waiting(context.now, context.at)

    def remove(self, name: str) -> None:
        """Note that a group waits no more."""
        self.waiting.pop(name, None)

    @property
    def since_at(self) -> int | None:
        """Time since which a group waits, milliseconds since the epoch; None while none does."""
        return min((entry.since_at for entry in self.waiting.values()), default=None)

    def by_need(self, context: ControlContext, groups: dict[str, ManagedGroup]) -> Iterator[str]:
        """Yield the groups that wait, in the order in which they are served.

        Args:
            context: settings, layouts and time.
            groups: the groups that wait, by name.
        """
        for name, group in groups.items():
            entry = self.waiting[name]
            if entry.group is not group or entry.need is None:
                entry.group, entry.need = group, need_of(group, context)
        neediest = sorted(groups, key=lambda name: self.waiting[name].need or (), reverse=True)
        longest = iter(list(groups))
        served: set[str] = set()
        by_need = iter(neediest)
        while len(served) < len(groups):
            by_wait = self._by_need == LONGEST_FIRST_EVERY - 1
            name = next(name for name in (longest if by_wait else by_need) if name not in served)
            self._by_need = 0 if by_wait else self._by_need + 1
            served.add(name)
            yield name

    def delay_events(self, budget: PlanBudget | None, now: float) -> list[LogEvent]:
        """Return the log events after a tick: that plans are delayed, or no longer."""
        if not self.waiting:
            if self._since is None:
                return []
            plans, seconds = self.computed - self._computed_before, now - self._since
            self._since, self._logged_delay = None, 0.0
            return [LogEvent("planning.caught_up", {"plans": plans, "seconds": round(seconds, 1)})]
        seconds = ceil(len(self.waiting) / budget.plans) * budget.every if budget else 0.0
        if seconds < max(LOGGED_DELAY_SECONDS, 2 * self._logged_delay):
            return []
        if self._since is None:
            self._since, self._computed_before = now, self.computed
        self._logged_delay = seconds
        fields = {"waiting": len(self.waiting), "seconds": round(seconds, 1)}
        return [LogEvent("planning.delayed", fields)]
