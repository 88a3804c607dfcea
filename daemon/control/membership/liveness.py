"""Liveness: eviction of members that are silent or keep what they must give up. Pure.

Silence and patience are measured in readable time: they stand still while the daemon cannot read
what members announce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.handover import patience
from levelwind.assignors.handover.ledger import Incarnation
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.members import start_bars
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.handover.planner_time import PlannerTime
    from levelwind.assignors.handover.timers import Timers
    from levelwind.daemon.control.managed_group import ManagedGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessCheck:
    """A group after a check, its log events, and the commits to fence."""

    group: ManagedGroup
    events: tuple[LogEvent, ...] = ()
    to_fence: Mapping[Incarnation, str]
    """Transactional ids by evicted incarnation, whose partitions wait for nothing else."""


def check_liveness(group: ManagedGroup, timers: Timers, time: PlannerTime) -> LivenessCheck:
    """Evict members that are silent or overdue, and free what evicted ones held."""
    events: list[LogEvent] = []
    for check in (_freeze, _evict_silent, _evict_overdue, _take_back_grants):
        group, more = check(group, timers, time)
        events += more
    group = _check_conflicts(_lift_bars(group, time), timers, time)
    group, to_fence = _fence(group, time)
    ledger = group.ledger.tick(time.now, time.read_until)
    return LivenessCheck(
        group=replace(group, ledger=ledger), events=tuple(events), to_fence=to_fence
    )


def _freeze(
    group: ManagedGroup, timers: Timers, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Freeze the group when most members fall silent together; thaw it when those have ended.

    Most members gone together looks more like a fault of the daemon or of the network than of the
    members, so nothing moves until `revoke_timeout` more has passed. Heartbeats are spread over
    their interval: a member that is within two heartbeats of `dead_after` counts among the silent.
    Members that fall silent later, or join, neither prolong this nor end it.
    """
    silence = {member: time.readable - live.last_seen for member, live in group.live.items()}
    suspect_after = timers.dead_after - 2 * timers.heartbeat
    suspects = frozenset(member for member, gap in silence.items() if gap >= suspect_after)
    if group.frozen:
        return replace(group, silent_together=group.silent_together & suspects), []
    dead = any(gap >= timers.dead_after for gap in silence.values())
    if not dead or len(silence) < 2 or 2 * len(suspects) <= len(silence):
        return group, []
    counts = {
        "silent": len(suspects),
        "members": len(silence),
        "for_seconds": timers.revoke_timeout,
    }
    event = LogEvent("group.frozen", {"group": group.name, **counts})
    return replace(group, silent_together=suspects), [event]


def _evict_silent(
    group: ManagedGroup, timers: Timers, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    events: list[LogEvent] = []
    longer = timers.dead_after + timers.revoke_timeout
    together = group.silent_together
    first = max((time.readable - group.live[m].last_seen for m in together), default=0.0)
    thaws = first >= longer
    limit = longer if group.frozen and not thaws else timers.dead_after
    for member, live in (*group.live.items(), *group.refused.items()):
        gap = time.readable - live.last_seen
        if gap >= limit:
            group, evicted = group.evict(member, f"not heard for {gap:g} s", time)
            events += evicted
    return replace(group, silent_together=frozenset() if thaws else together), events


def _evict_overdue(
    group: ManagedGroup, _timers: Timers, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    events: list[LogEvent] = []
    for incarnation, limit in sorted(patience.overdue(group.ledger, time.readable).items()):
        reason = f"did not give up its partitions within {limit:g} s"
        group, evicted = group.evict(incarnation, reason, time)
        events += evicted
    return group, events


def _take_back_grants(
    group: ManagedGroup, _timers: Timers, time: PlannerTime
) -> tuple[ManagedGroup, list[LogEvent]]:
    events: list[LogEvent] = []
    for member, partitions in sorted(patience.start_overdue(group.ledger, time.readable).items()):
        limit = group.ledger.holdings[member].waits.patience
        reason = f"not started within {limit:g} s"
        group, taken_back = group.take_back(member, partitions, reason, time)
        events += taken_back
    return group, events


def _lift_bars(group: ManagedGroup, time: PlannerTime) -> ManagedGroup:
    """Plan a member with a topic again when its bar has ended."""
    if not group.bars:
        return group
    bars = start_bars.checked(group.bars, time.readable)
    lifted = any(entry.lifted and not group.bars[key].lifted for key, entry in bars.items())
    group = replace(group, bars=bars)
    return group.changed(Cause.MEMBERSHIP, time.now) if lifted else group


def _check_conflicts(group: ManagedGroup, timers: Timers, time: PlannerTime) -> ManagedGroup:
    """Take back the announcements of contesting lives that fell silent; end what is over."""
    if not group.conflicts:
        return group
    ledger, conflicts = group.ledger, {}
    for instance, conflict in group.conflicts.items():
        for name in conflict.silent(time.readable, timers.dead_after):
            incarnation = Incarnation(instance, name)
            if incarnation not in ledger.holdings and incarnation not in ledger.ended:
                ledger = ledger.evict(incarnation, time)
        checked = conflict.checked(time.readable, timers.dead_after)
        if not checked.idle(time.readable):
            conflicts[instance] = checked
    return replace(group, ledger=ledger, conflicts=conflicts)


def _fence(
    group: ManagedGroup, time: PlannerTime
) -> tuple[ManagedGroup, Mapping[Incarnation, str]]:
    """Choose the transactional ids to fence.

    A newer incarnation of the instance that is live has fenced the older ones itself, and would be
    fenced with them.
    """
    live = {incarnation.instance for incarnation in group.live}
    ledger, asked = group.ledger, {}
    for incarnation, name in patience.to_fence(ledger, time.now, time.read_until).items():
        if incarnation.instance in live:
            ledger = ledger.commits_fenced(incarnation)
        else:
            before, ledger = ledger, ledger.fence_asked(incarnation)
            if ledger is not before:
                asked[incarnation] = name
    return replace(group, ledger=ledger), asked
