"""The proxy in one group: `step(state, event, now, context)` gives state and effects. Pure.

    AWAY -> CONNECTING -> DESCRIBING -> JOINING -> SYNCING -> STABLE -> JOINING -> ...
                          DESCRIBING -> CARRYING, in a KIP-848 group

A proxy that the coordinator does not name as the leader goes from SYNCING to STABLE by way of
SURVEYING.

It never harms: whatever is unexpected makes it leave the group at once and say so, and it tries
again after a pause that doubles. While it does not lead it has no partitions and sends heartbeats.
It offers every protocol that it can lead, so that it keeps no member out that offers any of them,
joins only when there is a plan, and stays in no group in which nobody else reads. A daemon that
ends or leads no more says no farewell: the next one goes on as the same member.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from levelwind.daemon.proxy import carrying
from levelwind.daemon.proxy.dictation import PROTOCOLS
from levelwind.daemon.proxy.membership import (
    ANSWER_SECONDS,
    beat,
    begin,
    heartbeat,
    is_news,
    join,
    on_heartbeat,
    on_joined,
    on_surveyed,
    on_synced,
)
from levelwind.daemon.proxy.proxy_state import (
    NEVER,
    Answered,
    AskBrokers,
    Broken,
    BrokersAnswered,
    Connect,
    Connected,
    Disconnected,
    PlanArrived,
    ProxyPhase,
    Send,
    Standing,
    Stopped,
    Woken,
)
from levelwind.daemon.proxy.way_out import (
    end,
    on_broker_error,
    on_disconnected,
    outside,
    refuse,
    retreat,
)
from levelwind.daemon.wire import group_requests as kafka
from levelwind.daemon.wire.consumer_heartbeat import ConsumerHeartbeatResponse
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribeGroupRequest,
)

if TYPE_CHECKING:
    from levelwind.daemon.proxy.proxy_state import (
        ProxyContext,
        ProxyEvent,
        ProxyState,
    )
    from levelwind.daemon.proxy.way_out import Step

REBALANCE_CHECK_SECONDS = 1.0
"""Wait before a group that rebalances is looked at again."""


def step(state: ProxyState, event: ProxyEvent, now: float, context: ProxyContext) -> Step:
    """Take in an event; return the next state, and the effects in their order."""
    if state.phase is ProxyPhase.ENDED:
        return state, []
    match event:
        case Stopped():
            return end(state)
        case Broken(reason=reason):
            return retreat(state, reason, "report this line and the error before it", now, context)
        case PlanArrived(plan=plan):
            return _on_plan(replace(state, plan=plan), now, context)
        case Woken():
            return _on_woken(state, now, context) if now >= state.wake_at else (state, [])
        case Connected(versions=versions):
            connected = replace(state, versions=versions, brokers_asked=False)
            return _on_connected(connected, now, context)
        case Disconnected(reason=reason):
            return on_disconnected(state, reason, now, context)
        case BrokersAnswered():
            return _on_brokers_answered(state, event, now, context)
        case Answered(response=response):
            return _on_answer(state, response, now, context)


def _on_plan(state: ProxyState, now: float, context: ProxyContext) -> Step:
    if state.phase is ProxyPhase.AWAY and state.standing is Standing.WAITS_FOR_PLAN:
        return (state, []) if state.plan is None else (replace(state, wake_at=now), [])
    if state.phase is ProxyPhase.STABLE and is_news(state):
        return join(state, now, context)
    if state.phase is ProxyPhase.CARRYING:
        return carrying.on_plan(state, now, context)
    return state, []


def _on_woken(state: ProxyState, now: float, context: ProxyContext) -> Step:
    match state.phase:
        case ProxyPhase.AWAY if state.plan is None:
            return outside(state, ProxyPhase.AWAY, Standing.WAITS_FOR_PLAN, NEVER), []
        case ProxyPhase.AWAY | ProxyPhase.CONNECTING:
            return replace(state, phase=ProxyPhase.CONNECTING, wake_at=NEVER), [Connect()]
        case ProxyPhase.DESCRIBING if now < state.answer_until:
            return _describe(state, now)
        case ProxyPhase.STABLE:
            return beat(state, now, context)
        case ProxyPhase.CARRYING:
            return carrying.beat(state, now, context)
        case _:
            reason = f"the coordinator did not answer in time while {state.phase.value}"
            return on_disconnected(state, reason, now, context)


def _on_connected(state: ProxyState, now: float, context: ProxyContext) -> Step:
    if state.phase is not ProxyPhase.CONNECTING:
        return state, []
    if not state.member_id:  # no member yet, or one whose new id was lost
        return _describe(state, now)
    resuming = replace(state, phase=ProxyPhase.RESUMING, wake_at=now + ANSWER_SECONDS)
    return resuming, [Send(heartbeat(state, context))]


def _on_answer(state: ProxyState, response: object, now: float, context: ProxyContext) -> Step:
    """Take in an answer that the phase awaits; any other is late, and no longer of concern."""
    match response:
        case DescribedGroup() if state.phase is ProxyPhase.DESCRIBING:
            return _on_described(replace(state, answer_until=NEVER), response, now, context)
        case DescribedGroup() if state.phase is ProxyPhase.SURVEYING:
            return on_surveyed(state, response, now, context)
        case DescribedConsumerGroup() if state.phase is ProxyPhase.DESCRIBING:
            return _on_described_consumer_group(
                replace(state, answer_until=NEVER), response, now, context
            )
        case DescribedConsumerGroup() if state.phase is ProxyPhase.CARRYING:
            return carrying.on_described(state, response, now, context)
        case ConsumerHeartbeatResponse() if state.phase is ProxyPhase.CARRYING:
            return carrying.on_heartbeat(state, response, now, context)
        case kafka.HeartbeatResponse(error=error) if state.phase in {
            ProxyPhase.RESUMING,
            ProxyPhase.STABLE,
        }:
            return on_heartbeat(state, error, now, context)
        case kafka.JoinResponse() if state.phase is ProxyPhase.JOINING:
            return on_joined(state, response, now, context)
        case kafka.SyncResponse() if state.phase is ProxyPhase.SYNCING:
            return on_synced(state, response, now, context)
        case _:
            return state, []


# Outside the group.


def _describe(state: ProxyState, now: float) -> Step:
    until = now + ANSWER_SECONDS
    asked = replace(state, phase=ProxyPhase.DESCRIBING, wake_at=until, answer_until=until)
    return asked, [Send(DescribeGroupRequest(state.group))]


def _on_described(
    state: ProxyState, described: DescribedGroup, now: float, context: ProxyContext
) -> Step:
    if described.error not in {kafka.NO_ERROR, kafka.GROUP_ID_NOT_FOUND}:
        return on_broker_error(state, described.error, now, context)
    if any(member.instance_id == context.instance_id for member in described.members):
        return begin(state, now, context)  # a group that rebalances may wait for the proxy alone
    match described.state:
        case "Stable":
            return _on_stable_group(state, described, now, context)
        case "Dead" if DescribeConsumerGroupRequest.KEY in state.versions:
            return state, [Send(carrying.describe(state))]
        case "Dead" | "Empty":
            return _await_members(state, now, context), []
        case _:
            return replace(state, wake_at=now + REBALANCE_CHECK_SECONDS), []


def _on_stable_group(
    state: ProxyState, described: DescribedGroup, now: float, context: ProxyContext
) -> Step:
    if described.protocol_type != kafka.CONSUMER:
        reason = f"its members are no consumers, but of the type {described.protocol_type!r}"
        return refuse(state, reason, "end the mode proxy of this group", now, context)
    if described.protocol not in PROTOCOLS:
        return refuse(
            state,
            f"its members use the protocol {described.protocol!r}, which the proxy does not know",
            f"let its members use one of {', '.join(PROTOCOLS)}, or end the mode proxy",
            now,
            context,
        )
    return begin(state, now, context)


def _on_described_consumer_group(
    state: ProxyState,
    described: DescribedConsumerGroup,
    now: float,
    context: ProxyContext,
) -> Step:
    match described.error:
        case kafka.NO_ERROR if described.members and not state.brokers_asked:
            return state, [AskBrokers()]
        case kafka.NO_ERROR if described.members:
            return carrying.begin(state, described, now, context)
        # Brokers of which KIP-848 is switched off know the request, and no such group.
        case kafka.NO_ERROR | kafka.GROUP_ID_NOT_FOUND | kafka.UNSUPPORTED_VERSION:
            return _await_members(state, now, context), []
        case _:
            return on_broker_error(state, described.error, now, context)


def _on_brokers_answered(
    state: ProxyState, answer: BrokersAnswered, now: float, context: ProxyContext
) -> Step:
    """Look at the group once more: the brokers may have taken a while."""
    if state.phase is not ProxyPhase.DESCRIBING:
        return state, []
    if answer.unknown or answer.lacking:
        return carrying.stay_out(state, answer, now, context)
    return _describe(replace(state, brokers_asked=True), now)


def _await_members(state: ProxyState, now: float, context: ProxyContext) -> ProxyState:
    """Look at the group again after a while, and keep the connection."""
    wake_at = now + context.settings.retry
    return replace(
        state,
        standing=Standing.WAITS_FOR_MEMBERS,
        reason="",
        wake_at=wake_at,
        lost_connections=0,
    )
