"""Decision about one group: the plan that is due, and the next step of its hand-over. Pure.

`decide` takes three steps: it evaluates the expected gain of the last plan once its cooldown is
over, makes a plan if the policy finds one due and worth its moves, and publishes the ledger's next
records. Every refusal is logged with its reason, once.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.problem.inputs import ProblemError
from levelwind.assignors.protocol.records import RacksEvidence, Tombstone
from levelwind.daemon.control import plan_record
from levelwind.daemon.control.audit.decision_draft import draft
from levelwind.daemon.control.audit.group_decision import Decision
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.decision import kept_plan
from levelwind.daemon.control.decision.ordered_plan import (
    OrderRefusedError,
    ended_proposal,
    needs_approval,
    ordered_target,
    planning_under,
    propose,
    refuse_order,
)
from levelwind.daemon.control.gain.cooldown import TRIGGERED
from levelwind.daemon.control.lever_set import only_necessary
from levelwind.daemon.control.planning import compute_plan
from levelwind.daemon.control.policy import Objection, Suppression, retry_pause
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.control.snapshot import GroupSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from levelwind.assignors.protocol.records import GroupRecord
    from levelwind.daemon.control.context import ControlContext
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.planning import ComputedPlan
    from levelwind.daemon.control.policy import Situation
    from levelwind.daemon.control.settings import PlanSettings


def decide(
    group: ManagedGroup, planning: PlanSettings, context: ControlContext, *, may_plan: bool = True
) -> Decision:
    """Evaluate the last plan, make the next one if it is due, and advance the hand-over.

    Args:
        group: the group.
        planning: the group's strategy.
        context: settings, layouts and time.
        may_plan: whether a plan may be computed now; if one is due, the decision says so.
    """
    snapshot = GroupSnapshot(group, context)
    evaluated = _watch_demand(group, snapshot)
    evaluated = evaluated.then(evaluate_last_plan(evaluated.group, snapshot))
    group = _without_lost_records(evaluated.group, context)
    planned = (
        plan_if_due(
            group,
            group.situation(),
            planning,
            snapshot,
            may_plan=may_plan,
            publish=lambda of, cause, plan: _publish(of, cause, plan, planning, snapshot),
        )
        if group.records_lost_at is None
        else Decision(group=group)
    )
    advanced = _advance_handover(planned.group, group.next_epoch, context)
    return evaluated.then(planned).then(advanced)


# The last plan.


def evaluate_last_plan(group: ManagedGroup, snapshot: GroupSnapshot) -> Decision:
    """Compare the expected gain of the last plan with the load now, once its cooldown is over."""
    expected, now = group.policy.cooldown.expected, snapshot.context.now
    if expected is None or not group.policy.evaluation_due(now) or snapshot.stale_lags:
        return Decision(group=group)
    policy = group.policy.evaluated(snapshot.excess, snapshot.context.settings)
    evaluated = replace(group, policy=policy)
    if group.plan is not None:
        cooldown = plan_record.planned_cooldown(policy, now, snapshot.context.at)
        evaluated = replace(evaluated, plan=replace(group.plan, cooldown=cooldown))
    fields = {
        "group": group.name,
        "expected": round(expected.after, 3),
        "achieved": round(snapshot.excess, 3),
        "met": expected.met(snapshot.excess),
        "cooldown": policy.cooldown.pause(Cause.SKEW),
    }
    return Decision(
        group=evaluated,
        records=() if evaluated.plan is None else (evaluated.plan,),
        events=(LogEvent("plan.evaluated", fields),),
    )


def _watch_demand(group: ManagedGroup, snapshot: GroupSnapshot) -> Decision:
    """Log what no plan can mend: arrivals beyond all capacity, and partitions that are too hot."""
    now = snapshot.context.now
    if group.plan is None or not group.live or not group.demand.due(snapshot.lag_at, now):
        return Decision(group=group)
    watch, events = group.demand.checked(group.name, snapshot.demand, snapshot.lag_at, now)
    return Decision(group=replace(group, demand=watch), events=tuple(events))


# The next plan.


def _without_lost_records(group: ManagedGroup, context: ControlContext) -> ManagedGroup:
    """End the wait after lost records, once all who may use a partition have announced it again."""
    lost_at = group.records_lost_at
    if lost_at is None or context.time_of(group.name).read_until < lost_at + group.longest_wait:
        return group
    return replace(group, records_lost_at=None)


def plan_if_due(
    group: ManagedGroup,
    situation: Situation,
    planning: PlanSettings,
    snapshot: GroupSnapshot,
    *,
    may_plan: bool,
    publish: Callable[[ManagedGroup, Cause, ComputedPlan], Decision],
    object_to: Callable[[Cause, ComputedPlan], Suppression | None] = lambda *_: None,
) -> Decision:
    """Make the plan that is due and worth its moves, or note why it is not made.

    An order that waits for the thaw is set aside: what members and topics ask for does not wait
    behind it.

    Args:
        group: the group.
        situation: the facts that the policy decides by.
        planning: the group's strategy.
        snapshot: the facts about the group.
        may_plan: whether a plan may be computed now.
        publish: returns the decision that publishes the plan.
        object_to: returns a further reason against a plan that the policy admits.
    """
    waits = _order_waits(group, situation, snapshot)
    if waits is not None:
        rest = kept_plan.without_order(waits.group)
        planned = plan_if_due(
            rest,
            situation._replace(requested=False, raised=(), awaited=rest.awaited),
            planning,
            snapshot,
            may_plan=may_plan,
            publish=publish,
            object_to=object_to,
        )
        return waits.then(
            replace(planned, group=kept_plan.with_order_of(waits.group, planned.group))
        )
    cause = _due_cause(group, situation, snapshot)
    if isinstance(cause, Decision):
        return cause
    if not may_plan:
        return Decision(group=group, awaits_plan=True)
    plan = computed_plan(group, cause, planning, snapshot)
    if isinstance(plan, Decision):
        return replace(plan, computed=True)
    context = snapshot.context
    suppression = group.policy.admit_plan(cause, plan.proposal, context.now, context.settings)
    suppression = suppression or object_to(cause, plan)
    if suppression is not None:
        decision = _refuse_plan(group, cause, plan, suppression, snapshot)
    elif needs_approval(group, cause, planning):
        decision = propose(group, cause, plan, snapshot)
    else:
        decision = publish(group, cause, plan)
    return replace(decision, computed=True)


def _order_waits(
    group: ManagedGroup, situation: Situation, snapshot: GroupSnapshot
) -> Decision | None:
    """Return the decision that lets an operator's order wait for the thaw; None if none waits."""
    if not kept_plan.has_order(group):
        return None
    order = Cause.OPERATOR
    frozen = kept_plan.objection_of_freeze(group, order, snapshot)
    if frozen is None:
        return None
    context = snapshot.context
    alone = kept_plan.order_alone(group.policy)
    if alone.due(situation._replace(raised=()), context.now, context.settings) is not order:
        return Decision(group=group)
    waiting = kept_plan.put_off(group, {order}, frozen.until)
    return suppress(waiting, order, frozen, None, snapshot)


def _due_cause(
    group: ManagedGroup, situation: Situation, snapshot: GroupSnapshot
) -> Cause | Decision:
    """Return the cause of a plan now; without one, the decision that makes none."""
    context, policy = snapshot.context, group.policy
    cause = policy.due(situation, context.now, context.settings)
    if cause is None:
        return Decision(group=group)
    if cause in kept_plan.CHANGES and snapshot.basis == group.basis:
        # A member came back unchanged before a plan was made: its partitions still wait for it.
        group = replace(group, policy=policy.without_changes(), waiting_for_topics=False)
        return Decision(group=group)
    asked = cause is Cause.OPERATOR and group.operator is not None
    if cause not in TRIGGERED and not asked and snapshot.missing_topics:
        return wait_for_topics(group, snapshot)
    if suppression := stale_trigger(cause, snapshot) or policy.admit(cause, context.now):
        return suppress(group, cause, suppression, None, snapshot)
    if frozen := kept_plan.objection_of_freeze(group, cause, snapshot):
        waiting = kept_plan.put_off(group, kept_plan.CHANGES, frozen.until)
        return suppress(waiting, cause, frozen, None, snapshot)
    return cause


def computed_plan(
    group: ManagedGroup, cause: Cause, planning: PlanSettings, snapshot: GroupSnapshot
) -> ComputedPlan | Decision:
    """Compute a plan, or take the one that is ordered; else return the decision that makes none."""
    planning, owners = planning_under(group, cause, planning), snapshot.owners
    if kept_plan.keeps_owners(group, cause, snapshot):
        planning = only_necessary(planning)
        owners = kept_plan.kept_owners(group, snapshot)
    try:
        return compute_plan(
            planning,
            snapshot.members,
            snapshot.topics,
            snapshot.lags,
            owners,
            snapshot.speeds,
            cause=cause,
            pause=group.policy.handover,
            target=ordered_target(group, snapshot) if cause is Cause.OPERATOR else None,
        )
    except (OrderRefusedError, ProblemError) as error:
        if group.operator is None or group.operator.action == "rebalance":
            return fail(group, cause, traceback.format_exc(), snapshot)
        return refuse_order(group, cause, str(error), snapshot)
    except Exception:  # noqa: BLE001 - a bug with one group must not stop the others; it is logged
        return fail(group, cause, traceback.format_exc(), snapshot)


def _refuse_plan(
    group: ManagedGroup,
    cause: Cause,
    plan: ComputedPlan,
    suppression: Suppression,
    snapshot: GroupSnapshot,
) -> Decision:
    """Leave a plan that is not admitted; if changed racks gain nothing, confirm the last one."""
    if suppression.objection is Objection.GAIN and cause is Cause.RACKS and group.plan is not None:
        return confirm(group, group.plan, plan, suppression, snapshot)
    return suppress(group, cause, suppression, plan, snapshot)


def _publish(
    group: ManagedGroup,
    cause: Cause,
    plan: ComputedPlan,
    planning: PlanSettings,
    snapshot: GroupSnapshot,
) -> Decision:
    """Publish a plan and set the ledger's target; an operator's request is fulfilled with it."""
    context = snapshot.context
    policy = group.policy.planned(cause, plan.proposal, context.now, context.settings)
    orphans_only = kept_plan.keeps_owners(group, cause, snapshot)
    record = plan_record.of(
        snapshot,
        cause,
        plan,
        policy,
        begins_new=planning.begins_new,
        orphans_only=orphans_only,
    )
    # The tombstone keeps a request from being followed twice, also after a restart.
    request = () if group.operator is None else (Tombstone(group.operator.key),)
    stale = frozenset(snapshot.stale_lags)
    published = LogEvent("plan.published", plan_record.canonical(record, plan, cause))
    planned = replace(group, policy=policy, stale_lags=stale).planned(
        plan, record, basis=snapshot.basis, now=context.now
    )
    if orphans_only:
        planned = kept_plan.unsettled(planned, cause, context.now)
    return Decision(
        group=planned,
        records=(record, *request, *ended_proposal(group)),
        events=(published,) if stale <= group.stale_lags else (published, _stale(snapshot)),
        drafts=(draft(group, "published", cause, snapshot, plan=plan, record=record),),
    )


def stale_trigger(cause: Cause, snapshot: GroupSnapshot) -> Suppression | None:
    """The objection to a plan because of skew while the lag is too old to plan by."""
    if cause is not Cause.SKEW or not snapshot.stale_lags:
        return None
    context = snapshot.context
    return Suppression(Objection.STALE, context.now + retry_pause(context.settings))


def _stale(snapshot: GroupSnapshot) -> LogEvent:
    """The log event of a plan that leaves out lag because it is too old."""
    oldest = min(record.at for record in snapshot.stale_lags.values())
    fields = {
        "group": snapshot.group.name,
        "topics": sorted(snapshot.stale_lags),
        "age": round((snapshot.context.at - oldest) / 1000),
    }
    return LogEvent("lag.stale", fields)


def wait_for_topics(group: ManagedGroup, snapshot: GroupSnapshot) -> Decision:
    """Make no plan before the layout of all topics of the plan in force is known."""
    fields = {"group": group.name, "topics": snapshot.missing_topics}
    event = LogEvent("plan.waiting_for_topics", fields)
    return Decision(
        group=replace(group, waiting_for_topics=True),
        events=() if group.waiting_for_topics else (event,),
    )


def fail(group: ManagedGroup, cause: Cause, trace: str, snapshot: GroupSnapshot) -> Decision:
    """Leave the assignment as it is, and try the cause again after a cooldown.

    A request is taken back: it would fail again, at the latest with the next start of the daemon.
    """
    context = snapshot.context
    asked = cause is Cause.OPERATOR and group.operator is not None
    fields = {
        "group": group.name,
        "cause": cause.value,
        "retry_in": None if asked else retry_pause(context.settings),
        "error": trace,
    }
    reason = trace.splitlines()[-1]
    failed = Decision(
        group=group,
        events=(LogEvent("plan.failed", fields),),
        drafts=(draft(group, "failed", cause, snapshot, reason=reason),),
    )
    if asked:
        return failed.then(
            refuse_order(group, cause, f"making the plan failed: {reason}", snapshot)
        )
    policy = group.policy.failed(cause, context.now, context.settings)
    return replace(failed, group=replace(group, policy=policy))


def suppress(
    group: ManagedGroup,
    cause: Cause,
    suppression: Suppression,
    plan: ComputedPlan | None,
    snapshot: GroupSnapshot,
) -> Decision:
    """Give a trigger no plan for a while, and log an objection that is not the last one."""
    context = snapshot.context
    last = group.policy.suppressed.get(cause)
    suppressed = replace(group, policy=group.policy.suppress(cause, suppression))
    if last is not None and last.objection is suppression.objection:
        return Decision(group=suppressed)
    fields: dict[str, object] = {
        "group": group.name,
        "cause": cause.value,
        "reason": _reason(suppression.objection, context),
        **({"moved": len(plan.moved), **plan_record.scores(plan)} if plan else {}),
        "retry_in": round(suppression.until - context.now, 1),
    }
    reason = str(fields["reason"])
    return Decision(
        group=suppressed,
        events=(LogEvent("plan.suppressed", fields),),
        drafts=(draft(group, "suppressed", cause, snapshot, plan=plan, reason=reason),),
    )


def _reason(objection: Objection, context: ControlContext) -> str:
    if objection is Objection.GAIN:
        return f"gains less than {context.settings.min_gain:.0%}"
    return objection.value


def confirm(
    group: ManagedGroup,
    in_force: GroupRecord,
    plan: ComputedPlan,
    suppression: Suppression,
    snapshot: GroupSnapshot,
) -> Decision:
    """Publish that the plan in force suits the changed racks, which clears the trigger."""
    topics = snapshot.context.topics
    trigger = group.triggers[Cause.RACKS]
    # Also of topics that no member reads any more: the trigger rests on them too.
    evidence = trigger.evidence.topics if isinstance(trigger.evidence, RacksEvidence) else ()
    layouts_at = [topics[name].at for name in evidence if name in topics]
    record = replace(
        in_force,
        metadata_at=max(snapshot.metadata_at, in_force.metadata_at or 0, *layouts_at),
        topics={
            # The number of partitions stays what the plan covers: a topic that has grown since is
            # still to be planned.
            name: replace(topic, racks=plan_record.racks(topics[name]))
            if name in topics and topics[name].id == topic.id
            else topic
            for name, topic in in_force.topics.items()
        },
    )
    policy = group.policy.suppress(Cause.RACKS, suppression._replace(objection=Objection.CONFIRMED))
    fields = {
        "group": group.name,
        "plan_id": in_force.plan_id,
        "cause": Cause.RACKS.value,
        **plan_record.scores(plan),
        "at": trigger.at,
    }
    return Decision(
        group=replace(group, plan=record, policy=policy),
        records=(record,),
        events=(LogEvent("plan.confirmed", fields),),
        drafts=(draft(group, "confirmed", Cause.RACKS, snapshot, plan=plan, record=record),),
    )


# The hand-over.


def _advance_handover(group: ManagedGroup, epoch: int, context: ControlContext) -> Decision:
    """Publish what the ledger allows by now: grants of what is free, revocations, tombstones.

    Args:
        group: the group, with the plan of this decision if there is one.
        epoch: the epoch of this decision: that of its plan, or the one after the last.
        context: settings and time.
    """
    if group.ledger is group.published_ledger:
        return Decision(group=group)
    ledger, records = group.ledger.next_records(
        epoch=epoch,
        planner_epoch=context.planner_epoch,
        readable=context.time_of(group.name).readable,
        reason=group.plan.cause if group.plan else "",
        published=group.published_ledger,
    )
    if all(isinstance(record, Tombstone) for record in records):
        # Tombstones say no epoch: the next step may have it.
        ledger = replace(ledger, epoch=group.ledger.epoch)
    group = replace(group, ledger=ledger, published_ledger=ledger)
    events: list[LogEvent] = []
    if records:
        fields = {"group": group.name, "group_epoch": ledger.epoch, **_progress(group)}
        events.append(LogEvent("handover.advanced", fields))
    if group.handover_since is not None and ledger.settled:
        seconds = round(context.now - group.handover_since, 3)
        settled = {"group": group.name, "group_epoch": ledger.epoch, "seconds": seconds}
        events.append(LogEvent("handover.settled", settled))
        cause = Cause.MEMBERSHIP if group.plan is None else Cause(group.plan.cause)
        policy = group.policy.handed_over(cause, context.now - group.handover_since)
        group = replace(group, handover_since=None, policy=policy)
    advanced = Decision(group=group, records=records, events=tuple(events))
    return advanced.then(_keep_last_epoch(group))


def _keep_last_epoch(group: ManagedGroup) -> Decision:
    """Have the plan's record say the highest epoch if the records that said it are deleted.

    A planner that starts takes the next epoch from the records that are left.
    """
    published = [holding.published for holding in group.ledger.holdings.values()]
    epochs = [record.group_epoch for record in published if record is not None]
    plan = group.plan
    if plan is None or max(plan.newest_epoch, *epochs, 0) >= group.ledger.epoch:
        return Decision(group=group)
    plan = replace(plan, last_epoch=group.ledger.epoch)
    return Decision(group=replace(group, plan=plan), records=(plan,))


def _progress(group: ManagedGroup) -> dict[str, int]:
    """Count partitions that are granted, still to be given up, and still to be granted."""
    holdings = group.ledger.holdings.values()
    granted = sum(len(holding.granted) for holding in holdings)
    revoking = sum(len(holding.revoking) for holding in holdings)
    target = sum(map(len, group.ledger.target.values()))
    return {"granted": granted, "revoking": revoking, "pending": max(target - granted, 0)}
