"""How the proxy gets out of a group, or to another connection, where something is not usual. Pure.

Guarantees: whoever cannot go on leaves the group at once, says why and what to do, and comes again
after a pause. A lost connection alone is no reason to leave, and neither is the end of the daemon:
the membership outlives both for a session timeout. Who was fenced leaves nothing: the membership is
another daemon's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from levelwind.daemon.doubling_pause import DoublingPause
from levelwind.daemon.proxy.dictation import PROTOCOLS
from levelwind.daemon.proxy.proxy_state import NEVER, Depart, ProxyLog, ProxyPhase, Standing
from levelwind.daemon.wire import group_requests as kafka
from levelwind.daemon.wire.consumer_heartbeat import (
    FENCED_MEMBER_EPOCH,
    TOPIC_AUTHORIZATION_FAILED,
)

if TYPE_CHECKING:
    from levelwind.daemon.proxy.proxy_state import ProxyContext, ProxyEffect, ProxyState

Step: TypeAlias = "tuple[ProxyState, list[ProxyEffect]]"

RECONNECT_SECONDS = 0.5
"""Wait before the second attempt to connect again."""

RECONNECT_MAX_SECONDS = 10.0
"""Longest such wait of a proxy that is no member."""

FENCED = frozenset({kafka.FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH})
"""Errors of a member whose membership another daemon has taken over."""

ACTIONS = {
    kafka.GROUP_AUTHORIZATION_FAILED: "grant the daemon's user the right to read the group",
    TOPIC_AUTHORIZATION_FAILED: "grant the daemon's user all that `levelwind acls` prints: also for"
    " topics that do not exist",
    kafka.INVALID_SESSION_TIMEOUT: "set proxy.session_timeout within the brokers'"
    " group.min.session.timeout.ms and group.max.session.timeout.ms",
    kafka.GROUP_MAX_SIZE_REACHED: "raise the brokers' group.max.size by one",
    kafka.INCONSISTENT_GROUP_PROTOCOL: f"let the members offer one of {', '.join(PROTOCOLS)}",
}
"""What to do about errors of a broker."""


def end(state: ProxyState) -> Step:
    """End, and leave the membership to the next daemon, which keeps the lead by it."""
    return outside(state, ProxyPhase.ENDED, Standing.ENDED, NEVER), [Depart("")]


def outside(
    state: ProxyState, phase: ProxyPhase, standing: Standing, wake_at: float, reason: str = ""
) -> ProxyState:
    """Forget the membership, and with it that the proxy led."""
    return replace(
        state,
        phase=phase,
        standing=standing,
        reason=reason,
        wake_at=wake_at,
        answer_until=NEVER,
        member_id="",
        generation=-1,
        settled=False,
        leader="",
        led=None,
        joined_at=NEVER,
        rejoin_at=NEVER,
        withheld_rounds=0,
        carriers=(),
    )


def desert(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Leave a group in which nobody else reads: it is to be empty, for those who reset offsets."""
    wake_at = now + context.settings.retry
    away = outside(state, ProxyPhase.AWAY, Standing.WAITS_FOR_MEMBERS, wake_at)
    return away, [state.farewell]


def retreat(state: ProxyState, reason: str, action: str, now: float, context: ProxyContext) -> Step:
    """Leave the group at once, say why, and try again after a pause."""
    settings = context.settings
    calm = now - state.joined_at > settings.retry_max
    failures = 1 if calm else state.failures + 1
    pause = DoublingPause(settings.retry, settings.retry_max).of(failures)
    away = outside(state, ProxyPhase.AWAY, Standing.BACKS_OFF, now + pause, reason)
    fields = {"group": state.group, "reason": reason, "action": action, "retry_in": pause}
    return replace(away, failures=failures), [
        state.farewell,
        ProxyLog("proxy.left", fields),
    ]


def refuse(state: ProxyState, reason: str, action: str, now: float, context: ProxyContext) -> Step:
    """Stay out of a group that cannot be led, say why, and look again much later."""
    pause = context.settings.retry_max
    away = outside(state, ProxyPhase.AWAY, Standing.REFUSED, now + pause, reason)
    fields = {"group": state.group, "reason": reason, "action": action, "retry_in": pause}
    return away, [state.farewell, ProxyLog("proxy.refused", fields)]


def yield_up(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Give way to the daemon that goes on as the same member.

    The pause is long enough for a daemon that was deposed to know it, and short enough for one that
    was not: what fenced it was no leader, and its membership must be taken over before it ends.
    """
    pause = context.settings.session_timeout / 2
    reason = "another daemon has taken the membership over"
    away = outside(state, ProxyPhase.AWAY, Standing.BACKS_OFF, now + pause, reason)
    fields = {"group": state.group, "retry_in": pause}
    return away, [Depart(""), ProxyLog("proxy.fenced", fields)]


def on_broker_error(state: ProxyState, error: int, now: float, context: ProxyContext) -> Step:
    """Find another coordinator, or leave."""
    if error in kafka.ELSEWHERE:
        return on_disconnected(state, "the broker does not coordinate the group", now, context)
    if error in FENCED:
        return yield_up(state, now, context)
    if error == kafka.UNKNOWN_MEMBER_ID:
        return retreat(
            replace(state, member_id=""),
            "the brokers dropped the proxy from the group: it was silent for too long, or removed",
            "see whether the daemon's process was stopped or starved",
            now,
            context,
        )
    action = ACTIONS.get(error, "look the error up in Kafka's protocol, or end the mode proxy")
    return retreat(state, f"the brokers answered with error {error}", action, now, context)


def on_disconnected(state: ProxyState, reason: str, now: float, context: ProxyContext) -> Step:
    """Connect again and stay a member: at once after a loss, later if that did not last.

    A group's next coordinator drops members of which it hears nothing for a session timeout, and
    until there is one the brokers name the lost one: a member must not miss the change.
    """
    if state.phase is ProxyPhase.AWAY:
        return state, []
    lost = state.lost_connections
    is_member = state.generation >= 0 or state.carriers
    longest = context.settings.heartbeat if is_member else RECONNECT_MAX_SECONDS
    pause = DoublingPause(RECONNECT_SECONDS, longest).of(lost)
    again = replace(
        state,
        phase=ProxyPhase.CONNECTING,
        wake_at=now + pause,
        answer_until=NEVER,
        lost_connections=lost + 1,
    )
    fields = {"group": state.group, "error": reason, "retry_in": pause}
    return again, [Depart(""), ProxyLog("proxy.disconnected", fields)]
