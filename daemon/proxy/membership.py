"""The proxy as a member of a group: joins, dictates as the leader, and sends heartbeats. Pure.

It is a static member: a daemon that comes back, or takes over, joins by the name of the
installation and goes on as the member that the daemon before was. The brokers give it a new member
id, and where the former id led they name that one as the leader still; asked again by the new id,
they let it lead. Nobody else has to leave, and where the assignment stays as it is, to join again.
Source: KIP-345, and `GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from levelwind.assignors.clients.classic.plan_application import moves
from levelwind.assignors.clients.group_join import join_subscription
from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerAssignment
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.proxy.dictation import (
    NOT_LED,
    PROTOCOLS,
    LastDictation,
    Refusal,
    dictate,
)
from levelwind.daemon.proxy.inherited_lead import inherited
from levelwind.daemon.proxy.proxy_state import (
    NEVER,
    LedMember,
    ProxyLog,
    ProxyPhase,
    Send,
    Standing,
)
from levelwind.daemon.proxy.succession import MOST_DRAWS, order_of
from levelwind.daemon.proxy.way_out import (
    desert,
    on_broker_error,
    on_disconnected,
    retreat,
)
from levelwind.daemon.wire import group_requests as kafka
from levelwind.daemon.wire.describe_requests import (
    DescribeGroupRequest,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.proxy.dictation import Dictation
    from levelwind.daemon.proxy.proxy_state import ProxyContext, ProxyEffect, ProxyState
    from levelwind.daemon.proxy.way_out import Step
    from levelwind.daemon.wire.describe_requests import DescribedGroup

ANSWER_SECONDS = 10.0
"""Longest wait for an answer that does not depend on other members."""

OTHERS_SECONDS = 60.0
"""Longest wait for an answer that depends on them: the process of a coordinator may be stopped, and
nothing else shows it. Members whose handlers take longer keep a round open for longer. The proxy
then joins the same round once more, over a new connection, which costs the group nothing."""

MOST_WITHHELD_ROUNDS = 6
"""Rounds in a row that withhold partitions, after which the members are taken not to give way."""

SUBSCRIPTION_VERSION = 0
"""Version of the proxy's own subscription: every leader can read it."""

NEXT_ROUND = frozenset({kafka.REBALANCE_IN_PROGRESS, kafka.ILLEGAL_GENERATION})
"""Errors that ask a member to join the next generation."""


def begin(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Join a group that has members, as a member of it or as the one that is in it already."""
    return _join_without_id(replace(state, joined_at=now, generation=-1, draws=0), now, context)


def join(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Join the next generation; as the leader, ask the group for it."""
    return _joining(state, now), [_join_request(state, context)]


def _join_without_id(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Join with a member id that the brokers draw, in place of the one that the proxy may have."""
    return join(replace(state, member_id=""), now, context)


def _draw(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Ask for another member id; while the group is stable that costs it no round."""
    return _join_without_id(replace(state, draws=state.draws + 1), now, context)


def _joining(state: ProxyState, now: float) -> ProxyState:
    member = state.standing in {Standing.LEADS, Standing.WAITS_FOR_LEAD}
    return replace(
        state,
        phase=ProxyPhase.JOINING,
        standing=state.standing if member else Standing.JOINS,
        wake_at=now + OTHERS_SECONDS,
        answer_until=NEVER,
        rejoin_at=NEVER,
        settled=False,
    )


def _join_request(state: ProxyState, context: ProxyContext) -> Send:
    timeout_ms = round(context.settings.session_timeout * 1000)
    request = kafka.JoinRequest(
        group=state.group,
        session_timeout_ms=timeout_ms,
        rebalance_timeout_ms=timeout_ms,
        member_id=state.member_id,
        instance_id=context.instance_id,
        protocols=tuple(
            (protocol, join_subscription(protocol, ()).encode(SUBSCRIPTION_VERSION))
            for protocol in PROTOCOLS
        ),
    )
    return Send(request)


def on_joined(
    state: ProxyState, joined: kafka.JoinResponse, now: float, context: ProxyContext
) -> Step:
    """Take in the outcome of the first phase: as the leader, dictate the assignment."""
    if joined.error in NEXT_ROUND:
        return join(state, now, context)
    if joined.error != kafka.NO_ERROR:
        return on_broker_error(state, joined.error, now, context)
    member = replace(
        state,
        member_id=joined.member_id,
        generation=joined.generation,
        leader=joined.leader,
        draws=state.draws if joined.generation == state.generation else 0,
    )
    if not joined.leader:
        # The group has gone over to KIP-848 meanwhile, whose coordinator lets nobody lead.
        return desert(member, now, context)
    if joined.leader != joined.member_id:
        following = replace(
            member, phase=ProxyPhase.SYNCING, led=None, wake_at=now + OTHERS_SECONDS
        )
        if member.draws and _may_draw(member):
            return _draw(following, now, context)
        return following, [Send(_sync(following, {}, context))]
    answer = dictate(
        joined.protocol,
        joined.joiners,
        joined.member_id,
        context.layouts,
        state.plan,
        LastDictation(state.shares, state.epoch) if state.leads else NOT_LED,
    )
    if not isinstance(answer, Refusal):
        return _lead(member, joined, answer, now, context)
    if answer.deserted:
        return desert(member, now, context)
    return retreat(member, answer.reason, answer.action, now, context)


def _lead(
    state: ProxyState,
    joined: kafka.JoinResponse,
    answer: Dictation,
    now: float,
    context: ProxyContext,
) -> Step:
    rounds = state.withheld_rounds + 1 if answer.withheld else 0
    if rounds > MOST_WITHHELD_ROUNDS:
        return retreat(
            state,
            f"members have claimed partitions for {rounds} rounds that they were to give up",
            "find out which client does not revoke its partitions",
            now,
            context,
        )
    leading = replace(
        _dictating(state, answer),
        phase=ProxyPhase.SYNCING,
        wake_at=now + ANSWER_SECONDS,
        withheld_rounds=rounds,
    )
    fields = {
        "group": state.group,
        "protocol": joined.protocol,
        "generation": joined.generation,
        "members": len(joined.joiners) - 1,
        "plan": None if answer.epoch is None else list(answer.epoch),
        "planned": answer.planned,
        "local": answer.local,
        "withheld": answer.withheld,
    }
    return leading, [
        Send(_sync(leading, answer.assignments, context)),
        ProxyLog("proxy.assigned", fields),
    ]


def _dictating(state: ProxyState, answer: Dictation) -> ProxyState:
    """Lead the group by a dictation."""
    return replace(
        state,
        shares=answer.shares,
        epoch=answer.epoch,
        layouts=answer.layouts,
        led={
            name: LedMember(tuple(member.topics), member.rack, answer.shares.get(name, {}))
            for member in answer.members
            for name in (member.instance_id or member.id,)
        },
    )


def on_synced(
    state: ProxyState, synced: kafka.SyncResponse, now: float, context: ProxyContext
) -> Step:
    """Take in the outcome of the second phase; who does not lead looks at the others."""
    if synced.error in NEXT_ROUND:
        return join(state, now, context)
    if synced.error != kafka.NO_ERROR:
        return on_broker_error(state, synced.error, now, context)
    if state.leads:
        return _settle(state, "", now, context)
    if wrong := _wrong_assignment(synced.assignment):
        action = "find out which client leads the group, or end the mode proxy"
        return retreat(state, f"the group's leader {state.leader} {wrong}", action, now, context)
    surveying = replace(state, phase=ProxyPhase.SURVEYING, wake_at=now + ANSWER_SECONDS)
    return surveying, [Send(DescribeGroupRequest(state.group))]


def on_surveyed(
    state: ProxyState, described: DescribedGroup, now: float, context: ProxyContext
) -> Step:
    """Take up the lead of the daemon before, or see to it that nobody else succeeds the leader."""
    if described.error != kafka.NO_ERROR:
        return on_broker_error(state, described.error, now, context)
    others = {each.id: each for each in described.members if each.id != state.member_id}
    if (leader := others.get(state.leader)) is None:
        return _inherit(state, described, now, context)
    surveyed = replace(state, order=order_of(others.keys() - {leader.id}))
    if described.state == "Stable" and _may_draw(surveyed):
        return _draw(surveyed, now, context)
    return _settle(surveyed, _obstacle(leader.instance_id), now, context)


def _inherit(
    state: ProxyState, described: DescribedGroup, now: float, context: ProxyContext
) -> Step:
    """Lead a group whose leader is no member: it is the id that the proxy had before.

    If it is a member that has left instead, the group rebalances. Asked by the new id, the
    coordinator begins a round only if the proxy leads, and else repeats its answer.
    """
    answer = inherited(described, state.member_id, context.layouts, state.plan)
    if answer is None:
        return join(state, now, context)
    return _settle(_dictating(state, answer), "", now, context)


def _may_draw(state: ProxyState) -> bool:
    """Whether another member id may come before those that succeed the leader sooner."""
    return state.draws < MOST_DRAWS and not state.order.goes_first(state.member_id)


def _settle(state: ProxyState, reason: str, now: float, context: ProxyContext) -> Step:
    """Stay in the generation, and ask for the next one if there is to be one."""
    standing = Standing.LEADS if state.leads else Standing.WAITS_FOR_LEAD
    heartbeat = context.settings.heartbeat
    # Members that gave something up ask for the next round themselves; the proxy does in case.
    again = heartbeat * 2 ** (state.withheld_rounds - 1) if state.withheld_rounds else NEVER
    stable = replace(
        state,
        phase=ProxyPhase.STABLE,
        standing=standing,
        reason=reason,
        settled=True,
        wake_at=now + heartbeat,
        rejoin_at=now + again,
    )
    log: list[ProxyEffect] = []
    if standing is not state.standing:
        event = "proxy.leading" if state.leads else "proxy.waiting_for_lead"
        log.append(ProxyLog(event, {"group": state.group, "generation": state.generation}))
    if is_news(stable):
        joining, effects = join(stable, now, context)
        return joining, [*log, *effects]
    return stable, log


def _obstacle(instance: str | None) -> str:
    """Why a static leader may keep the lead; empty if the leader is none."""
    return (
        f"the leader {instance!r} is a static member, which keeps the lead when it restarts; it"
        " gives it up once it is stopped for longer than its session timeout"
        if instance
        else ""
    )


def is_news(state: ProxyState) -> bool:
    """Whether the newest plan moves something in the group that the proxy leads."""
    plan = state.plan
    return (
        state.leads
        and plan is not None
        and (state.epoch is None or plan.epoch > state.epoch)
        and moves(plan, state.shares)
    )


def beat(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Send the next heartbeat; as the leader, see whether the group needs another assignment."""
    if now >= state.answer_until:
        return on_disconnected(state, "the coordinator did not answer a heartbeat", now, context)
    if state.leads and (now >= state.rejoin_at or _outdated(state, context)):
        return join(state, now, context)
    beating = replace(state, wake_at=now + context.settings.heartbeat)
    if state.answer_until < NEVER:
        return beating, []  # the last one is under way
    return replace(beating, answer_until=now + ANSWER_SECONDS), [Send(heartbeat(state, context))]


def on_heartbeat(state: ProxyState, error: int, now: float, context: ProxyContext) -> Step:
    """Take in the answer to a heartbeat, the first one on a new connection among them."""
    if error in NEXT_ROUND:
        return join(state, now, context)
    if error != kafka.NO_ERROR:
        return on_broker_error(state, error, now, context)
    answered = replace(state, answer_until=NEVER, lost_connections=0)
    if state.phase is ProxyPhase.STABLE:
        return answered, []
    # The connection was lost before the proxy had settled, or a plan came before it was back.
    if not state.settled or is_news(answered):
        return join(answered, now, context)
    return replace(answered, phase=ProxyPhase.STABLE, wake_at=now + context.settings.heartbeat), []


def heartbeat(state: ProxyState, context: ProxyContext) -> kafka.HeartbeatRequest:
    """The sign of life of the membership."""
    return kafka.HeartbeatRequest(
        state.group, state.generation, state.member_id, context.instance_id
    )


def _outdated(state: ProxyState, context: ProxyContext) -> bool:
    """Whether a topic of the group has other partitions than were assigned."""
    return any(
        (layout := context.layouts.get(name)) is not None
        and layout is not assigned
        and (layout.id, layout.partitions) != (assigned.id, assigned.partitions)
        for name, assigned in state.layouts.items()
    )


def _wrong_assignment(assignment: bytes) -> str:
    """What is wrong with an assignment to the proxy; empty if it gives nothing.

    librdkafka's leader sends a member without partitions no bytes at all.
    """
    if not assignment:
        return ""
    try:
        partitions = ConsumerAssignment.decode(assignment).partitions
    except WireError as error:
        return f"sent the proxy an assignment that cannot be read: {error}"
    return f"gave the proxy partitions of {', '.join(partitions)}" if partitions else ""


def _sync(
    state: ProxyState, assignments: Mapping[str, bytes], context: ProxyContext
) -> kafka.SyncRequest:
    return kafka.SyncRequest(
        state.group, state.generation, state.member_id, context.instance_id, assignments
    )
