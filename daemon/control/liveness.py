"""Which members of a group are taken for dead: the silent, and who does not give up what it must. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.control.context import Say
from daemon.control.managed_group import (
    Live,
    evict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.handover.timers import Timers
    from daemon.control.duplicate_instances import Contest
    from daemon.control.managed_group import GroupState


def check_liveness(state: GroupState, timers: Timers, now: float) -> tuple[GroupState, list[Say]]:
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
    said: list[Say] = []
    if freeze and not state.frozen:
        counts = {
            "silent": len(suspects),
            "members": len(silence),
            "for_seconds": timers.revoke_timeout,
        }
        said.append(Say("group.frozen", {"group": state.name, **counts}))
    patience = timers.dead_after + (timers.revoke_timeout if freeze else 0)
    late = sorted(state.ledger.overdue(now, timers.revoke_timeout))
    state = replace(state, frozen=freeze, contests=_still_open(state.contests, timers, now))
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
    contests: Mapping[str, Contest], timers: Timers, now: float
) -> Mapping[str, Contest]:
    if not contests:
        return contests
    checked = {
        instance: contest.checked(now, timers.dead_after) for instance, contest in contests.items()
    }
    return {instance: contest for instance, contest in checked.items() if not contest.idle(now)}


def not_heard_for(state: GroupState, seconds: float) -> GroupState:
    """Forgive the members a silence that was ours: so long nobody listened."""
    live = {who: Live(known.record, known.heard + seconds) for who, known in state.live.items()}
    return replace(state, live=live)
