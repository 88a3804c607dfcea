"""Liveness: eviction of members that are silent or keep what they must give up. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.control.context import LogEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.handover.timers import Timers
    from daemon.control.duplicate_instances import InstanceConflict
    from daemon.control.managed_group import ManagedGroup


def check_liveness(
    group: ManagedGroup, timers: Timers, now: float
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Evict members that are silent or overdue; freeze the group when most fall silent together.

    Most members gone together looks more like a fault of the daemon or of the network than of the
    members, so nothing moves until `revoke_timeout` more has passed. Heartbeats are spread over
    their interval: a member that is within two heartbeats of `dead_after` counts among the silent.
    """
    silence = {incarnation: now - live.last_seen for incarnation, live in group.live.items()}
    dead = [incarnation for incarnation, gap in silence.items() if gap >= timers.dead_after]
    suspect_after = timers.dead_after - 2 * timers.heartbeat
    suspects = sum(gap >= suspect_after for gap in silence.values())
    most = len(silence) > 1 and 2 * suspects > len(silence)
    freeze = bool(dead) and (most or group.frozen)  # a member that joins does not thaw the group
    events: list[LogEvent] = []
    if freeze and not group.frozen:
        counts = {
            "silent": suspects,
            "members": len(silence),
            "for_seconds": timers.revoke_timeout,
        }
        events.append(LogEvent("group.frozen", {"group": group.name, **counts}))
    patience = timers.dead_after + (timers.revoke_timeout if freeze else 0)
    group = replace(group, frozen=freeze, conflicts=_open_conflicts(group.conflicts, timers, now))
    silent = [incarnation for incarnation in dead if silence[incarnation] >= patience]
    overdue = sorted(group.ledger.overdue(now, timers.revoke_timeout))
    for incarnations, reason in (
        (silent, f"not heard for {patience:g} s"),
        (overdue, f"did not give up its partitions within {timers.revoke_timeout:g} s"),
    ):
        for incarnation in incarnations:
            group, evicted = group.evict(incarnation, reason, now)
            events += evicted
    return replace(group, ledger=group.ledger.tick(now)), events


def _open_conflicts(
    conflicts: Mapping[str, InstanceConflict], timers: Timers, now: float
) -> Mapping[str, InstanceConflict]:
    if not conflicts:
        return conflicts
    checked = {
        instance: conflict.checked(now, timers.dead_after)
        for instance, conflict in conflicts.items()
    }
    return {instance: conflict for instance, conflict in checked.items() if not conflict.idle(now)}


def forgive_silence(group: ManagedGroup, seconds: float) -> ManagedGroup:
    """Disregard `seconds` of the members' silence, during which the daemon itself did not read."""
    live = {
        incarnation: live._replace(last_seen=live.last_seen + seconds)
        for incarnation, live in group.live.items()
    }
    return replace(group, live=live)
