"""Which members of a group are taken for dead: the silent, and who does not give up what it must. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.control.context import LogEvent
from daemon.control.managed_group import (
    Live,
    evict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.handover.timers import Timers
    from daemon.control.duplicate_instances import InstanceConflict
    from daemon.control.managed_group import ManagedGroup


def check_liveness(
    state: ManagedGroup, timers: Timers, now: float
) -> tuple[ManagedGroup, list[LogEvent]]:
    """Evict who fell silent or does not give up what it must; freeze when most fall silent together.

    Most members gone together looks more like a fault of ours or of the network than like theirs, so nothing moves until
    `revoke_timeout` more has passed. Heartbeats are spread over their interval: who is silent for two of them less than
    `dead_after` is counted with those who are dead.
    """
    silence = {who: now - live.heard for who, live in state.live.items()}
    dead = [who for who, seconds in silence.items() if seconds >= timers.dead_after]
    suspects = [
        who
        for who, seconds in silence.items()
        if seconds >= timers.dead_after - 2 * timers.heartbeat
    ]
    most = len(silence) > 1 and 2 * len(suspects) > len(silence)
    freeze = bool(dead) and (most or state.frozen)  # who joins a frozen group does not thaw it
    said: list[LogEvent] = []
    if freeze and not state.frozen:
        counts = {
            "silent": len(suspects),
            "members": len(silence),
            "for_seconds": timers.revoke_timeout,
        }
        said.append(LogEvent("group.frozen", {"group": state.name, **counts}))
    patience = timers.dead_after + (timers.revoke_timeout if freeze else 0)
    late = sorted(state.ledger.overdue(now, timers.revoke_timeout))
    state = replace(state, frozen=freeze, conflicts=_still_open(state.conflicts, timers, now))
    for who, why in (
        *((who, f"not heard for {patience:g} s") for who in dead if silence[who] >= patience),
        *(
            (who, f"did not give up its partitions within {timers.revoke_timeout:g} s")
            for who in late
        ),
    ):
        state, words = evict(state, who, why, now)
        said += words
    return replace(state, ledger=state.ledger.tick(now)), said


def _still_open(
    conflicts: Mapping[str, InstanceConflict], timers: Timers, now: float
) -> Mapping[str, InstanceConflict]:
    if not conflicts:
        return conflicts
    checked = {
        instance: conflict.checked(now, timers.dead_after)
        for instance, conflict in conflicts.items()
    }
    return {instance: conflict for instance, conflict in checked.items() if not conflict.idle(now)}


def not_heard_for(state: ManagedGroup, seconds: float) -> ManagedGroup:
    """Forgive the members a silence that was ours: so long nobody listened."""
    live = {who: Live(known.record, known.heard + seconds) for who, known in state.live.items()}
    return replace(state, live=live)
