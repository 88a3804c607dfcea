"""Whether a group is planned anew, and what follows from it. Pure.

Membership, topics and an operator's word get a plan as soon as they have settled. A trigger gets one only when the group
is not cooling, its last hand-over is over, the plan gains `min_gain`, and its moves fit the budget of the cause; otherwise
the reason is said, once, and the trigger is considered again later: it stands as long as its cause stands.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignors.protocol.records import GroupRecord, RacksEvidence, Tombstone
from daemon.control import managed_group as group_state
from daemon.control import plan_record
from daemon.control.context import Say
from daemon.control.cooldown import (
    TRIGGERED,
    Promise,
)
from daemon.control.managed_group import TurnedDown
from daemon.control.planning import plan as make_plan
from daemon.control.settings import Cause
from streaming.rules.skew import skew_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.problem.score import Score
    from assignors.protocol.records import LagRecord, Record
    from daemon.control.context import World
    from daemon.control.managed_group import GroupState
    from daemon.control.planning import Plan
    from daemon.control.settings import PlanSettings

Changes = tuple["Record | Tombstone", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A group after a decision, the records of one transaction, and what to say of it."""

    state: GroupState
    records: Changes = ()
    said: tuple[Say, ...] = ()


def decide(state: GroupState, wanted: PlanSettings, world: World) -> Outcome:
    """Plan the group if anything asks for it, and publish what the hand-over allows by now."""
    state, said = _judged(state, world)
    cause = due(state, world)
    outcome = Outcome(state=state) if cause is None else _follow(cause, state, wanted, world)
    return _advanced(replace(outcome, said=(*said, *outcome.said)), world)


def due(state: GroupState, world: World) -> Cause | None:
    """Return what asks for a plan now, the most pressing first."""
    if state.operator is not None and state.live:
        return Cause.OPERATOR
    if state.frozen:
        return None
    for cause, change in state.changes.items():
        still = world.now - change.last >= world.settings.settle
        if still or world.now - change.first >= world.settings.settle_max:
            return cause
    if not state.live or state.changes or not state.ledger.settled:
        return None
    for cause in TRIGGERED:
        known = state.turned_down.get(cause)
        if cause in state.triggers and (known is None or world.now >= known.until):
            return cause
    return None


def _follow(cause: Cause, state: GroupState, wanted: PlanSettings, world: World) -> Outcome:
    basis = state.profile(world.topics)
    if cause in {Cause.MEMBERSHIP, Cause.TOPICS}:
        if basis == state.basis:
            # A member came back, as it was, before anybody noticed: its partitions wait for it.
            return Outcome(state=replace(state, changes={}, held=False))
        if unknown := _unknown_topics(state, world):
            return _held(state, unknown)
    if cause in TRIGGERED and state.restraint.cooling(world.now):
        return _suppressed(
            state, cause, "cooling down", None, state.restraint.until - world.now, world
        )
    lags = current_lags(state, world)
    try:
        plan = make_plan(
            wanted,
            state.members,
            {name: world.topics[name] for name in basis.topics},
            lags,
            state.owners(),
        )
    except Exception:  # noqa: BLE001 - a bug that one group's input brings out must not stop the others; it is said in full
        return _failed(state, cause, traceback.format_exc(), world)
    if cause in TRIGGERED and (outcome := _turned_down(cause, state, plan, lags, world)):
        return outcome
    record = plan_record.of(state, cause, plan, lags, world)
    promise = None
    if (
        cause is Cause.SKEW
        and plan.before.lag_max_over_mean is not None
        and plan.after.lag_max_over_mean is not None
    ):
        promise = Promise(before=plan.before.lag_max_over_mean, after=plan.after.lag_max_over_mean)
    restraint = state.restraint.planned(
        cause, len(plan.moved), promise, world.now, world.settings.restraint
    )
    followed: Changes = ()
    if state.operator is not None:
        followed = (Tombstone(state.operator.key),)  # followed once, also after a restart
    planned = group_state.planned(
        replace(state, restraint=restraint), plan, record, basis, world.now
    )
    said = Say("plan.published", plan_record.canonical(record, plan, cause))
    return Outcome(state=planned, records=(record, *followed), said=(said,))


def _unknown_topics(state: GroupState, world: World) -> list[str]:
    """Return the topics of the standing plan that are neither known nor known to be gone: who plans without them revokes."""
    planned = state.plan.topics if state.plan else {}
    return sorted(
        t for t in planned if state.reads(t) and t not in world.topics and t not in world.gone
    )


def _held(state: GroupState, unknown: list[str]) -> Outcome:
    said = () if state.held else (Say("plan.held", {"group": state.name, "topics": unknown}),)
    return Outcome(state=replace(state, held=True), said=said)


def _failed(state: GroupState, cause: Cause, trace: str, world: World) -> Outcome:
    """Leave the assignment as it is; the same cause is tried again after a cool-down, other groups go on."""
    pause = world.settings.restraint.cool_down
    later = {**state.turned_down, cause: TurnedDown("failed", world.now + pause)}
    changes = {
        c: change._replace(first=world.now + pause, last=world.now + pause)
        for c, change in state.changes.items()
    }
    fields = {"group": state.name, "reason": cause.value, "again_in": pause, "error": trace}
    state = replace(state, turned_down=later, changes=changes, operator=None)
    return Outcome(state=state, said=(Say("plan.failed", fields),))


def current_lags(state: GroupState, world: World) -> dict[str, LagRecord]:
    """Return the lag of the topics that the group's members read; that of a topic made anew since counts no more."""
    return {
        name: record
        for name, record in state.lags.items()
        if state.reads(name) and name in world.topics and record.id == world.topics[name].id
    }


def _turned_down(
    cause: Cause, state: GroupState, plan: Plan, lags: Mapping[str, LagRecord], world: World
) -> Outcome | None:
    """Return the outcome of a trigger that no plan follows, None where one does."""
    pause = world.settings.restraint.cool_down
    gain = gained(cause, plan.before, plan.after)
    if gain < world.settings.min_gain:
        if cause is Cause.RACKS and state.plan is not None:
            return _confirmed(state, state.plan, plan, world)
        outcome = _suppressed(
            state, cause, f"gains less than {world.settings.min_gain:.0%}", plan, pause, world
        )
        return _unsplittable(outcome, plan, lags)
    if state.restraint.over_budget(cause, len(plan.moved), world.now, world.settings.restraint):
        return _suppressed(state, cause, "its moves exceed the hour's budget", plan, pause, world)
    return None


def gained(cause: Cause, before: Score, after: Score) -> float:
    """Return the share by which a plan lowers what its trigger complains of; 0 where there is nothing to lower."""
    if cause is Cause.RACKS:
        was, becomes = before.cross_rack, after.cross_rack
    else:
        was, becomes = before.lag_max_over_mean, after.lag_max_over_mean
    return (was - becomes) / was if was and becomes is not None else 0.0


def _confirmed(state: GroupState, standing: GroupRecord, plan: Plan, world: World) -> Outcome:
    """Say that the plan that stands was held against the new metadata: that ends the trigger."""
    trigger = state.triggers[Cause.RACKS]
    # Also of topics that no member reads any more: the trigger rests on them too.
    evidence = trigger.evidence.topics if isinstance(trigger.evidence, RacksEvidence) else ()
    seen = [world.topics[name].at for name in evidence if name in world.topics]
    record = replace(
        standing,
        metadata_at=max(plan_record.metadata_at(state, world), standing.metadata_at or 0, *seen),
        topics={
            # Its size stays what the plan covers: a topic that has grown since is still to be planned.
            name: replace(topic, racks=plan_record.racks(now))
            if now is not None and now.id == topic.id
            else topic
            for name, topic, now in (
                (n, t, world.topics.get(n)) for n, t in standing.topics.items()
            )
        },
    )
    fields = {
        "group": state.name,
        "plan_id": standing.plan_id,
        "reason": Cause.RACKS.value,
        **plan_record.scores(plan),
    }
    until = world.now + world.settings.restraint.cool_down
    later = {**state.turned_down, Cause.RACKS: TurnedDown("confirmed", until)}
    confirmed = replace(state, plan=record, turned_down=later)
    return Outcome(
        state=confirmed,
        records=(record,),
        said=(Say("plan.confirmed", {**fields, "at": trigger.at}),),
    )


def _suppressed(
    state: GroupState, cause: Cause, why: str, plan: Plan | None, pause: float, world: World
) -> Outcome:
    """Turn a trigger down for a while, and say so if it is for another reason than last time."""
    known = state.turned_down.get(cause)
    held = replace(
        state, turned_down={**state.turned_down, cause: TurnedDown(why, world.now + pause)}
    )
    if known is not None and known.why == why:
        return Outcome(state=held)
    fields: dict[str, object] = {"group": state.name, "reason": cause.value, "why": why}
    fields |= {"moved": len(plan.moved), **plan_record.scores(plan)} if plan else {}
    fields["again_in"] = round(pause, 1)
    return Outcome(state=held, said=(Say("plan.suppressed", fields),))


def _unsplittable(outcome: Outcome, plan: Plan, lags: Mapping[str, LagRecord]) -> Outcome:
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
        outcome, state=known, said=(*outcome.said, Say("partition.unsplittable", fields))
    )


def _judged(state: GroupState, world: World) -> tuple[GroupState, tuple[Say, ...]]:
    """Hold the last plan against its promise once its cool-down is over."""
    promise = state.restraint.promise
    if promise is None or state.restraint.cooling(world.now):
        return state, ()
    skew = _skew_now(state, world)
    restraint = state.restraint.judged(skew, world.now, world.settings.restraint)
    fields = {
        "group": state.name,
        "promised": round(promise.after, 3),
        "brought": round(skew, 3),
        "kept": promise.kept(skew),
        "cool_down": restraint.pause,
    }
    return replace(state, restraint=restraint), (Say("plan.judged", fields),)


def _skew_now(state: GroupState, world: World) -> float:
    """Return the skew as the pipeline's lag and the ledger's owners have it; 1 without lag."""
    members = state.members
    loads = dict.fromkeys(members, 0.0)
    owners = state.owners()
    for topic, record in current_lags(state, world).items():
        for number, lag in enumerate(record.lag):
            if (owner := owners.get((topic, number))) in loads:
                loads[owner] += lag / members[owner].capacity
    return skew_of(np.array(list(loads.values())))


def _advanced(outcome: Outcome, world: World) -> Outcome:
    """Publish what the ledger allows by now: grants of what is free, revocations, tombstones."""
    state = outcome.state
    if state.ledger is state.advanced:
        return outcome
    # A plan's own changes carry its epoch; what the hand-over allows later carries the ones after it.
    epoch = max(state.ledger.epoch + 1, state.plan.group_epoch if state.plan else 0)
    reason = state.plan.reason if state.plan else ""
    ledger, changes = state.ledger.publish(
        epoch=epoch,
        planner_epoch=world.planner_epoch,
        now=world.now,
        reason=reason,
        traits=state.traits(),
    )
    state = replace(state, ledger=ledger, advanced=ledger)
    said = list(outcome.said)
    if changes:
        said.append(
            Say(
                "handover.advanced",
                {"group": state.name, "group_epoch": epoch, **_under_way(state)},
            )
        )
    if state.handover_since is not None and ledger.settled:
        seconds = round(world.now - state.handover_since, 3)
        said.append(
            Say(
                "handover.settled",
                {"group": state.name, "group_epoch": ledger.epoch, "seconds": seconds},
            )
        )
        state = replace(state, handover_since=None)
    return Outcome(state=state, records=(*outcome.records, *changes), said=tuple(said))


def _under_way(state: GroupState) -> dict[str, int]:
    holdings = state.ledger.holdings.values()
    granted = sum(len(holding.granted) for holding in holdings)
    wanted = sum(map(len, state.ledger.target.values()))
    revoking = sum(len(holding.revoking) for holding in holdings)
    return {"granted": granted, "revoking": revoking, "pending": max(wanted - granted, 0)}
