"""The proxy in a KIP-848 group: its members carry the plan to the coordinator's assignor. Pure.

The coordinator of such a group assigns by itself, and asks an assignor when a member joins, leaves
or changes its subscription. So the proxy joins as one member or several that read nothing, whose
rack ids hold the plan, and whose subscription to a topic that does not exist changes with it. The
assignor `levelwind` of levelwind's jar for brokers follows it. The members' ids are those of the
installation: a daemon that takes over joins by them again, and nothing moves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.kafka.carried_plan import MARK, epoch_of, rack_ids
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.proxy.dictation import NO_EPOCH
from levelwind.daemon.proxy.proxy_state import (
    NEVER,
    Carrier,
    LedMember,
    ProxyLog,
    ProxyPhase,
    Send,
    Standing,
)
from levelwind.daemon.proxy.way_out import (
    desert,
    on_broker_error,
    on_disconnected,
    outside,
    refuse,
    retreat,
    yield_up,
)
from levelwind.daemon.wire import group_requests as kafka
from levelwind.daemon.wire.consumer_heartbeat import (
    JOINING,
    LEAVING,
    UNSUPPORTED_ASSIGNOR,
    ConsumerHeartbeatRequest,
)
from levelwind.daemon.wire.describe_requests import DescribeConsumerGroupRequest

if TYPE_CHECKING:
    from levelwind.daemon.proxy.proxy_state import (
        BrokersAnswered,
        ProxyContext,
        ProxyEffect,
        ProxyState,
    )
    from levelwind.daemon.proxy.way_out import Step
    from levelwind.daemon.wire.consumer_heartbeat import ConsumerHeartbeatResponse
    from levelwind.daemon.wire.describe_requests import DescribedConsumerGroup, DescribedMember

ASSIGNOR = "levelwind"
"""Name of the coordinator's assignor that follows plans."""
ANSWER_SECONDS = 10.0
"""Longest wait for the answer to a heartbeat."""
BRISK_SECONDS = 1.0
"""Time between two heartbeats while a plan is to take effect."""
MOST_BRISK_SECONDS = 15.0
"""Longest time in which a plan is expected to take effect."""

NO_JAR = (
    f"not every broker has the assignor {ASSIGNOR!r}, which follows a plan in a KIP-848 group",
    (
        "install levelwind's jar on every broker, see docs/coordinator.md; or set"
        " group.protocol=classic for the group's members; or end the mode proxy"
    ),
)
"""Reason and action for brokers without the assignor."""


def stay_out(state: ProxyState, answer: BrokersAnswered, now: float, context: ProxyContext) -> Step:
    """Keep out of a group whose coordinator may be a broker without the assignor.

    Such a coordinator answers the members of a group with an error that ends them, once a carrier
    alone names the assignor: no broker may lack it.
    """
    if answer.unknown:
        action = "grant the daemon's user all that `levelwind acls` prints; else see to the brokers"
        return retreat(state, answer.unknown, action, now, context)
    reason, action = NO_JAR
    numbers = ", ".join(map(str, answer.lacking))
    return refuse(state, f"{reason} (brokers {numbers})", action, now, context)


def begin(
    state: ProxyState, described: DescribedConsumerGroup, now: float, context: ProxyContext
) -> Step:
    """Join a group that has members of its own, or join again by the ids of the daemon before."""
    if (
        state.versions.get(ConsumerHeartbeatRequest.KEY, (0, 0))[1]
        < ConsumerHeartbeatRequest.VERSION
    ):
        return refuse(state, *NO_JAR, now, context)
    left = tuple(Carrier(member.id, JOINING) for member in _own(described, context))
    if not _readers(described):
        return desert(replace(state, carriers=left), now, context)
    if state.plan is None or _carried(described, context) > state.plan.epoch:
        return yield_up(state, now, context)
    joining = replace(
        state,
        phase=ProxyPhase.CARRYING,
        standing=state.standing if state.leads else Standing.JOINS,
        joined_at=now,
        carriers=left,
    )
    return _carry(joining, now, context)


def on_plan(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Carry a newer plan, once no answer is awaited; without a plan, leave."""
    if state.plan is None:
        away = outside(state, ProxyPhase.AWAY, Standing.WAITS_FOR_PLAN, NEVER)
        return away, [state.farewell]
    if state.plan.epoch == state.epoch or any(one.awaits_answer for one in state.carriers):
        return state, []
    return _carry(state, now, context)


def beat(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Send the next heartbeats."""
    if any(carrier.awaits_answer for carrier in state.carriers):
        return on_disconnected(state, "the coordinator did not answer a heartbeat", now, context)
    if state.plan is not None and state.plan.epoch != state.epoch:
        return _carry(state, now, context)
    return _sent(
        state,
        [
            ConsumerHeartbeatRequest(
                group=state.group, member_id=carrier.member_id, epoch=carrier.epoch
            )
            for carrier in state.carriers
        ],
        now,
    )


def on_heartbeat(
    state: ProxyState, answer: ConsumerHeartbeatResponse, now: float, context: ProxyContext
) -> Step:
    """Take in the answer to a heartbeat: another epoch tells that the group has changed."""
    if answer.error == UNSUPPORTED_ASSIGNOR:
        return refuse(state, *NO_JAR, now, context)
    if answer.error != kafka.NO_ERROR:
        return on_broker_error(state, answer.error, now, context)
    before = {carrier.member_id: carrier for carrier in state.carriers}
    if answer.member_id not in before:
        return state, []
    changed = before[answer.member_id].epoch != answer.epoch
    asked: list[ProxyEffect] = [Send(describe(state))] if changed else []
    after = before | {answer.member_id: Carrier(answer.member_id, answer.epoch)}
    carriers = tuple(after.values())
    if any(carrier.awaits_answer for carrier in carriers):
        return replace(state, carriers=carriers), asked
    pause = answer.interval_ms / 1000
    if now < state.brisk_until:
        pause = min(pause, BRISK_SECONDS)
    resting = replace(state, carriers=carriers, lost_connections=0, wake_at=now + pause)
    carrying, effects = on_plan(resting, now, context)
    return carrying, [*asked, *effects]


def on_described(
    state: ProxyState, described: DescribedConsumerGroup, now: float, context: ProxyContext
) -> Step:
    """Take in who is in the group, and by whose plan it goes."""
    if described.error == kafka.GROUP_ID_NOT_FOUND:
        return desert(state, now, context)
    if described.error != kafka.NO_ERROR:
        return on_broker_error(state, described.error, now, context)
    readers = _readers(described)
    if all(reader.classic for reader in readers):
        # Nobody reads, or the group could be a classic one again if the carriers were not there.
        return desert(state, now, context)
    if state.epoch is not None and (carried := _carried(described, context)) != state.epoch:
        # A daemon that was deposed goes on by the same member ids until it knows.
        if carried > state.epoch:
            return yield_up(state, now, context)
        state = replace(state, epoch=None)  # the next heartbeat tells the plan again
    leads = described.assignor == ASSIGNOR
    led = _led(readers)
    if leads and led == state.led:
        return state, []
    settled = replace(
        state,
        standing=Standing.LEADS if leads else Standing.WAITS_FOR_LEAD,
        reason=""
        if leads
        else f"most members name the assignor {described.assignor!r}: the plan is not followed",
        led=led if leads else None,
    )
    if state.standing is settled.standing:
        return settled, []
    event = "proxy.leading" if leads else "proxy.waiting_for_lead"
    generation = max(carrier.epoch for carrier in state.carriers)
    return settled, [ProxyLog(event, {"group": state.group, "generation": generation})]


def _carry(state: ProxyState, now: float, context: ProxyContext) -> Step:
    """Tell the coordinator the newest plan: the last part changes a subscription."""
    assert state.plan is not None  # noqa: S101 - the proxy joins with a plan alone
    known = {name: layout.id for name, layout in context.layouts.items()}
    shares = {
        member: {topic: numbers for topic, numbers in share.items() if topic in known}
        for member, share in state.plan.assignments.items()
    }
    try:
        parts = rack_ids(state.plan.epoch, shares, known)
    except WireError as error:
        action = "split the group, or end its mode proxy"
        return refuse(state, str(error), action, now, context)
    epochs = {carrier.member_id: carrier.epoch for carrier in state.carriers}
    planner_epoch, group_epoch = state.plan.epoch
    requests = []
    for number, part in enumerate(parts):
        member_id = f"{_stem(context)}{number}"
        epoch = epochs.pop(member_id, JOINING)
        last = number == len(parts) - 1
        topic = f"{context.instance_id}.plan.{planner_epoch}.{group_epoch}"
        requests.append(
            ConsumerHeartbeatRequest(
                group=state.group,
                member_id=member_id,
                epoch=epoch,
                rack_id=part,
                topics=(topic,) if last else (),
                assignor=ASSIGNOR if epoch == JOINING else None,
            )
        )
    carriers = tuple(Carrier(one.member_id, one.epoch) for one in requests)
    carrying, effects = _sent(
        replace(
            state,
            carriers=carriers,
            epoch=state.plan.epoch,
            brisk_until=now + MOST_BRISK_SECONDS,
        ),
        requests,
        now,
    )
    leaving = [
        Send(ConsumerHeartbeatRequest(group=state.group, member_id=member_id, epoch=LEAVING))
        for member_id in epochs
    ]
    fields = {
        "group": state.group,
        "plan": list(state.plan.epoch),
        "carriers": len(parts),
        "characters": sum(map(len, parts)),
    }
    return carrying, [*effects, *leaving, ProxyLog("proxy.carried", fields)]


def _sent(state: ProxyState, requests: list[ConsumerHeartbeatRequest], now: float) -> Step:
    awaiting = tuple(
        Carrier(each.member_id, each.epoch, awaits_answer=True) for each in state.carriers
    )
    waiting = replace(state, carriers=awaiting, wake_at=now + ANSWER_SECONDS)
    return waiting, [Send(request) for request in requests]


def describe(state: ProxyState) -> DescribeConsumerGroupRequest:
    """The question who is in the group, in the newest version that the coordinator takes."""
    request = DescribeConsumerGroupRequest
    newest = state.versions.get(request.KEY, (0, 0))[1]
    return request(state.group, typed=newest >= request.TYPED_VERSION)


def _stem(context: ProxyContext) -> str:
    """Beginning of the carriers' member ids."""
    return f"{context.instance_id}."


def _own(described: DescribedConsumerGroup, context: ProxyContext) -> list[DescribedMember]:
    """The carriers of this installation, of which another daemon may speak."""
    return [one for one in described.members if one.id.startswith(_stem(context))]


def _carried(described: DescribedConsumerGroup, context: ProxyContext) -> tuple[int, int]:
    """Epoch of the newest plan that the installation's carriers have."""
    epochs = [epoch_of(one.rack or "") for one in _own(described, context)]
    return max((epoch for epoch in epochs if epoch is not None), default=NO_EPOCH)


def _readers(described: DescribedConsumerGroup) -> list[DescribedMember]:
    """The members that are no carriers, of this or another installation."""
    return [one for one in described.members if not (one.rack or "").startswith(MARK)]


def _led(readers: list[DescribedMember]) -> dict[str, LedMember]:
    """The members by name.

    The coordinator does not tell what a pattern matches: whoever has one counts as a reader of each
    topic that one of those has partitions of. What it does not read the assignor gives to others.
    """
    targets = {reader.id: reader.target or {} for reader in readers}
    matched = {topic for each in readers if each.pattern for topic in targets[each.id]}
    return {
        reader.instance_id or reader.id: LedMember(
            tuple(sorted({*(reader.topics or ()), *(matched if reader.pattern else ())})),
            reader.rack,
            targets[reader.id],
        )
        for reader in readers
    }
