"""Whether a group is planned anew, and what follows from it. Pure.

Membership, topics and an operator's word get a plan as soon as they have settled. A trigger gets one only when the group
is not cooling, its last hand-over is over, the plan gains `min_gain`, and its moves fit the budget of the cause; otherwise
the reason is said, once, and the trigger is considered again later: it stands as long as its cause stands.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assignors.protocol.records import GroupRecord, RacksEvidence, Tombstone
from daemon.control import managed_group as group_state
from daemon.control import plan_record
from daemon.control.context import LogEvent
from daemon.control.cooldown import (
    TRIGGERED,
    ExpectedGain,
)
from daemon.control.group_lag import current_lags, group_lag
from daemon.control.managed_group import Suppression
from daemon.control.planning import plan as make_plan
from daemon.control.settings import Cause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.problem.score import Score
    from assignors.protocol.records import LagRecord, Record
    from daemon.control.context import ControlContext
    from daemon.control.managed_group import ManagedGroup
    from daemon.control.planning import ComputedPlan
    from daemon.control.settings import PlanSettings

EVEN = 1.0
"""The skew of a group without lag."""

Changes = tuple["Record | Tombstone", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A group after a decision, the records of one transaction, and what to say of it."""

    state: ManagedGroup
    records: Changes = ()
    said: tuple[LogEvent, ...] = ()


def decide(state: ManagedGroup, wanted: PlanSettings, context: ControlContext) -> Outcome:
    """Plan the group if anything asks for it, and publish what the hand-over allows by now."""
    state, said = _evaluate(state, context)
    cause = due(state, context)
    outcome = Outcome(state=state) if cause is None else _follow(cause, state, wanted, context)
    return _advanced(replace(outcome, said=(*said, *outcome.said)), context)


def due(state: ManagedGroup, context: ControlContext) -> Cause | None:
    """Return what asks for a plan now, the most pressing first."""
    if state.operator is not None and state.live:
        return Cause.OPERATOR
    if state.frozen:
        return None
    for cause, change in state.changes.items():
        still = context.now - change.last >= context.settings.settle
        if still or context.now - change.first >= context.settings.settle_max:
            return cause
    if not state.live or state.changes or not state.ledger.settled:
        return None
    for cause in TRIGGERED:
        known = state.suppressed.get(cause)
        if cause in state.triggers and (known is None or context.now >= known.until):
            return cause
    return None


def _follow(
    cause: Cause, state: ManagedGroup, wanted: PlanSettings, context: ControlContext
) -> Outcome:
    basis = state.profile(context.topics)
    if cause in {Cause.MEMBERSHIP, Cause.TOPICS}:
        if basis == state.basis:
            # A member came back, as it was, before anybody noticed: its partitions wait for it.
            return Outcome(state=replace(state, changes={}, waiting_for_topics=False))
        if unknown := _unknown_topics(state, context):
            return _wait_for_topics(state, unknown)
    if cause in TRIGGERED and state.cooldown.active(context.now):
        return _suppress(
            state, cause, "cooling down", None, state.cooldown.until - context.now, context
        )
    lags = {
        name: record
        for name, record in current_lags(state.lags, context.topics, context.deleted_topics).items()
        if name in basis.topics
    }
    try:
        plan = make_plan(
            wanted,
            state.members,
            {name: context.topics[name] for name in basis.topics},
            lags,
            state.owners(),
        )
    except Exception:  # noqa: BLE001 - a bug that one group's input brings out must not stop the others; it is said in full
        return _failed(state, cause, traceback.format_exc(), context)
    if cause in TRIGGERED and (outcome := _rejected(cause, state, plan, lags, context)):
        return outcome
    record = plan_record.of(state, cause, plan, lags, context)
    expected = None
    if (
        cause is Cause.SKEW
        and plan.before.lag_max_over_mean is not None
        and plan.after.lag_max_over_mean is not None
    ):
        expected = ExpectedGain(
            before=plan.before.lag_max_over_mean, after=plan.after.lag_max_over_mean
        )
    cooldown = state.cooldown.planned(
        cause, len(plan.moved), expected, context.now, context.settings.cooldown
    )
    followed: Changes = ()
    if state.operator is not None:
        followed = (Tombstone(state.operator.key),)  # followed once, also after a restart
    planned = group_state.planned(
        replace(state, cooldown=cooldown), plan, record, basis, context.now
    )
    said = LogEvent("plan.published", plan_record.canonical(record, plan, cause))
    return Outcome(state=planned, records=(record, *followed), said=(said,))


def _unknown_topics(state: ManagedGroup, context: ControlContext) -> list[str]:
    """Return the topics of the standing plan that are neither known nor known to be gone: who plans without them revokes."""
    planned = state.plan.topics if state.plan else {}
    return sorted(
        t
        for t in planned
        if state.reads(t) and t not in context.topics and t not in context.deleted_topics
    )


def _wait_for_topics(state: ManagedGroup, unknown: list[str]) -> Outcome:
    said = (
        ()
        if state.waiting_for_topics
        else (LogEvent("plan.waiting_for_topics", {"group": state.name, "topics": unknown}),)
    )
    return Outcome(state=replace(state, waiting_for_topics=True), said=said)


def _failed(state: ManagedGroup, cause: Cause, trace: str, context: ControlContext) -> Outcome:
    """Leave the assignment as it is; the same cause is tried again after a cool-down, other groups go on."""
    pause = context.settings.cooldown.duration
    later = {**state.suppressed, cause: Suppression("failed", context.now + pause)}
    changes = {
        c: change._replace(first=context.now + pause, last=context.now + pause)
        for c, change in state.changes.items()
    }
    fields = {"group": state.name, "cause": cause.value, "retry_in": pause, "error": trace}
    state = replace(state, suppressed=later, changes=changes, operator=None)
    return Outcome(state=state, said=(LogEvent("plan.failed", fields),))


def _rejected(
    cause: Cause,
    state: ManagedGroup,
    plan: ComputedPlan,
    lags: Mapping[str, LagRecord],
    context: ControlContext,
) -> Outcome | None:
    """Return the outcome of a trigger that no plan follows, None where one does."""
    pause = context.settings.cooldown.duration
    gain = gained(cause, plan.before, plan.after)
    if gain < context.settings.min_gain:
        if cause is Cause.RACKS and state.plan is not None:
            return _confirmed(state, state.plan, plan, context)
        outcome = _suppress(
            state, cause, f"gains less than {context.settings.min_gain:.0%}", plan, pause, context
        )
        return _unsplittable(outcome, plan, lags)
    if state.cooldown.over_budget(cause, len(plan.moved), context.now, context.settings.cooldown):
        return _suppress(state, cause, "its moves exceed the hour's budget", plan, pause, context)
    return None


def gained(cause: Cause, before: Score, after: Score) -> float:
    """Return the share by which a plan lowers what its trigger complains of; 0 where there is nothing to lower."""
    if cause is Cause.RACKS:
        was, becomes = before.cross_rack, after.cross_rack
    else:
        was, becomes = before.lag_max_over_mean, after.lag_max_over_mean
    return (was - becomes) / was if was and becomes is not None else 0.0


def _confirmed(
    state: ManagedGroup, standing: GroupRecord, plan: ComputedPlan, context: ControlContext
) -> Outcome:
    """Say that the plan that stands was held against the new metadata: that ends the trigger."""
    trigger = state.triggers[Cause.RACKS]
    # Also of topics that no member reads any more: the trigger rests on them too.
    evidence = trigger.evidence.topics if isinstance(trigger.evidence, RacksEvidence) else ()
    seen = [context.topics[name].at for name in evidence if name in context.topics]
    record = replace(
        standing,
        metadata_at=max(plan_record.metadata_at(state, context), standing.metadata_at or 0, *seen),
        topics={
            # Its size stays what the plan covers: a topic that has grown since is still to be planned.
            name: replace(topic, racks=plan_record.racks(now))
            if now is not None and now.id == topic.id
            else topic
            for name, topic, now in (
                (n, t, context.topics.get(n)) for n, t in standing.topics.items()
            )
        },
    )
    fields = {
        "group": state.name,
        "plan_id": standing.plan_id,
        "cause": Cause.RACKS.value,
        **plan_record.scores(plan),
    }
    until = context.now + context.settings.cooldown.duration
    later = {**state.suppressed, Cause.RACKS: Suppression("confirmed", until)}
    confirmed = replace(state, plan=record, suppressed=later)
    return Outcome(
        state=confirmed,
        records=(record,),
        said=(LogEvent("plan.confirmed", {**fields, "at": trigger.at}),),
    )


def _suppress(
    state: ManagedGroup,
    cause: Cause,
    why: str,
    plan: ComputedPlan | None,
    pause: float,
    context: ControlContext,
) -> Outcome:
    """Turn a trigger down for a while, and say so if it is for another reason than last time."""
    known = state.suppressed.get(cause)
    held = replace(
        state, suppressed={**state.suppressed, cause: Suppression(why, context.now + pause)}
    )
    if known is not None and known.why == why:
        return Outcome(state=held)
    fields: dict[str, object] = {"group": state.name, "cause": cause.value, "reason": why}
    fields |= {"moved": len(plan.moved), **plan_record.scores(plan)} if plan else {}
    fields["retry_in"] = round(pause, 1)
    return Outcome(state=held, said=(LogEvent("plan.suppressed", fields),))


def _unsplittable(outcome: Outcome, plan: ComputedPlan, lags: Mapping[str, LagRecord]) -> Outcome:
    """Say once which partition no plan can do anything about."""
    state = outcome.state
    trigger = state.triggers.get(Cause.SKEW)
    heaviest = max(
        (
            (lag, topic, number)
            for topic, record in lags.items()
            for number, lag in enumerate(record.lag)
        ),
        default=None,
    )
    threshold = getattr(trigger.evidence, "threshold", None) if trigger else None
    if heaviest is None or threshold is None or plan.heaviest < threshold:
        return outcome
    lag, topic, number = heaviest
    if (topic, number) in state.unsplittable:
        return outcome
    fields = {
        "group": state.name,
        "topic": topic,
        "partition": number,
        "lag": lag,
        "skew": round(plan.heaviest, 3),
    }
    known = replace(state, unsplittable=state.unsplittable | {(topic, number)})
    return replace(
        outcome, state=known, said=(*outcome.said, LogEvent("partition.unsplittable", fields))
    )


def _evaluate(
    state: ManagedGroup, context: ControlContext
) -> tuple[ManagedGroup, tuple[LogEvent, ...]]:
    """Hold the last plan against its promise once its cool-down is over."""
    expected = state.cooldown.expected
    if expected is None or state.cooldown.active(context.now):
        return state, ()
    skew = _current_skew(state, context)
    cooldown = state.cooldown.evaluate(skew, context.now, context.settings.cooldown)
    fields = {
        "group": state.name,
        "expected": round(expected.after, 3),
        "achieved": round(skew, 3),
        "met": expected.met(skew),
        "cooldown": cooldown.pause,
    }
    return replace(state, cooldown=cooldown), (LogEvent("plan.evaluated", fields),)


def _current_skew(state: ManagedGroup, context: ControlContext) -> float:
    """Return the skew as the pipeline's lag and the ledger's owners have it; 1 without lag."""
    lags = current_lags(state.lags, context.topics, context.deleted_topics)
    return group_lag(lags, state.owners(), state.capacity).skew or EVEN


def _advanced(outcome: Outcome, context: ControlContext) -> Outcome:
    """Publish what the ledger allows by now: grants of what is free, revocations, tombstones."""
    state = outcome.state
    if state.ledger is state.advanced:
        return outcome
    # A plan's own changes carry its epoch; what the hand-over allows later carries the ones after it.
    epoch = max(state.ledger.epoch + 1, state.plan.group_epoch if state.plan else 0)
    reason = state.plan.cause if state.plan else ""
    ledger, changes = state.ledger.next_records(
        epoch=epoch,
        planner_epoch=context.planner_epoch,
        now=context.now,
        reason=reason,
        traits=state.traits(),
    )
    state = replace(state, ledger=ledger, advanced=ledger)
    said = list(outcome.said)
    if changes:
        said.append(
            LogEvent(
                "handover.advanced",
                {"group": state.name, "group_epoch": epoch, **_under_way(state)},
            )
        )
    if state.handover_since is not None and ledger.settled:
        seconds = round(context.now - state.handover_since, 3)
        said.append(
            LogEvent(
                "handover.settled",
                {"group": state.name, "group_epoch": ledger.epoch, "seconds": seconds},
            )
        )
        state = replace(state, handover_since=None)
    return Outcome(state=state, records=(*outcome.records, *changes), said=tuple(said))


def _under_way(state: ManagedGroup) -> dict[str, int]:
    holdings = state.ledger.holdings.values()
    granted = sum(len(holding.granted) for holding in holdings)
    wanted = sum(map(len, state.ledger.target.values()))
    revoking = sum(len(holding.revoking) for holding in holdings)
    return {"granted": granted, "revoking": revoking, "pending": max(wanted - granted, 0)}
