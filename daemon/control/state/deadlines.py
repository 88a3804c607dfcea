"""Deadlines of a group: the earliest times at which a look at it would change anything. Pure.

A tick looks only at groups with a deadline that has passed. Between two deadlines a look changes
nothing, whatever the clocks say; records change deadlines, time alone does not. So everything that
`check_liveness` and `decide` do because time has passed has its deadline here, as the state that it
rests on states it. `tests/daemon/control/schedule` holds this to a control that looks at every
group at every tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from levelwind.assignors.handover import patience
from levelwind.daemon.control.members import start_bars
from levelwind.daemon.control.snapshot import GroupSnapshot

if TYPE_CHECKING:
    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.handover.timers import Timers
    from levelwind.daemon.control.context import ControlContext
    from levelwind.daemon.control.managed_group import ManagedGroup

AT_ONCE = float("-inf")
NEVER = float("inf")

ROUNDING_SECONDS = 1e-6
"""A deadline counts as passed this much too early: a sum of times is not as exact as the
difference that the look itself compares. A look that comes too early changes nothing."""


class Deadlines(NamedTuple):
    """The next deadline on each of the clocks that a group goes by; `NEVER` without one."""

    now: float
    """Boot seconds."""
    readable: float
    """Readable seconds of the group's partition of `levelwind.members`."""
    read_until: float
    """Boot seconds up to which that partition is to be read."""

    def passed(self, time: PlannerTime) -> bool:
        """Whether the group is to be looked at."""
        return (
            self.now <= time.now + ROUNDING_SECONDS
            or self.readable <= time.readable + ROUNDING_SECONDS
            or self.read_until <= time.read_until + ROUNDING_SECONDS
        )


NO_DEADLINES = Deadlines(NEVER, NEVER, NEVER)


def deadlines_of(
    group: ManagedGroup,
    context: ControlContext,
    *,
    postponed_until: float | None = None,
    awaits_plan: bool = False,
) -> Deadlines:
    """Return when a group is to be looked at if no record changes it before.

    Args:
        group: the group.
        context: settings, layouts and time.
        postponed_until: end of the wait of a group whose records were refused, in boot seconds:
            until then only its members are looked at.
        awaits_plan: whether the group waits for its plan already, which then has no deadline.
    """
    if group.idle:
        at = NEVER if postponed_until is None else postponed_until
        return Deadlines(at, NEVER, NEVER)
    timers, time = context.timers, context.time_of(group.name)
    readable = min(
        _silence_at(group, timers, time),
        patience.overdue_at(group.ledger),
        start_bars.checked_at(group.bars) if group.bars else NEVER,
    )
    for conflict in group.conflicts.values():
        readable = min(readable, conflict.checked_at(timers.dead_after))
    now, read_until = patience.released_at(group.ledger, time, group.live)
    if postponed_until is not None:
        return Deadlines(min(now, postponed_until), readable, read_until)
    if group.records_lost_at is not None:
        read_until = min(read_until, group.records_lost_at + group.longest_wait)
    now = min(now, _decided_at(group, context))
    if group.records_lost_at is None and not awaits_plan:
        now = min(now, planned_at(group, context))
    return Deadlines(now, readable, read_until)


def sample_looked_at(group: ManagedGroup) -> float:
    """Return the boot seconds from which a sample of lag that came just now is to be looked at."""
    return NEVER if group.plan is None or not group.live else group.demand.next_at


def _silence_at(group: ManagedGroup, timers: Timers, time: PlannerTime) -> float:
    """Readable time at which silence evicts a member, freezes the group, or thaws it."""
    limit = timers.dead_after
    if group.frozen:
        limit += timers.revoke_timeout
        suspect_after = timers.dead_after - 2 * timers.heartbeat
        for member in group.silent_together:
            live = group.live.get(member)
            if live is None or time.readable - live.last_seen < suspect_after:
                return AT_ONCE  # one of those who froze the group has come back or is gone
    seen = [live.last_seen for live in group.live.values()]
    if group.refused:
        seen += [live.last_seen for live in group.refused.values()]
    return min(seen) + limit if seen else NEVER


def _decided_at(group: ManagedGroup, context: ControlContext) -> float:
    """Boot seconds at which a decision would change the group, apart from a plan."""
    if group.ledger is not group.published_ledger:
        return AT_ONCE
    at = NEVER
    if group.plan is not None and group.live:
        at = group.demand.due_at(group.lag_at)
    policy = group.policy
    if policy.cooldown.expected is not None:
        evaluation_at = policy.cooldown.evaluation_at
        # Only another sample lets a plan be evaluated whose lag is stale.
        if evaluation_at > context.now or not GroupSnapshot(group, context).stale_lags:
            at = min(at, evaluation_at)
    return at


def planned_at(group: ManagedGroup, context: ControlContext) -> float:
    """Boot seconds at which the policy finds a plan due."""
    if group.operator is None and not group.policy.changes and not group.triggers:
        return NEVER
    at = group.policy.due_at(group.situation(), context.settings)
    if group.waiting_for_topics and at <= context.now and not group.operator:
        snapshot = GroupSnapshot(group, context)
        if snapshot.missing_topics and snapshot.basis != group.basis:
            return NEVER  # only the layout of a topic, or another member, ends this wait
    return at
