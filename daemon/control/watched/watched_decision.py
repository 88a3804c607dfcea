"""Decision about a watched group: the plan that is due, for others to apply. Pure.

The causes and limits of plans are those of managed groups. A plan counts as followed once the
owners are those that it names; the next trigger waits for that, but not longer than
`FOLLOW_SECONDS`: who applies plans may be away. In mode `advisory` nobody applies them, so nothing
waits, and a plan that says what the last one said is not published again.

The plan of a group that is gone ends: with a pattern for the names of groups, each console consumer
would leave one for ever. Gone is a group without any lag record: the pipeline deletes those of
groups without members and commits. A record that is merely old says that the pipeline is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import PlannedMember, Tombstone
from levelwind.assignors.protocol.records.cutting import cut_assignments
from levelwind.daemon.control import plan_record
from levelwind.daemon.control.audit.decision_draft import draft
from levelwind.daemon.control.audit.group_decision import Decision
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.decision import kept_plan
from levelwind.daemon.control.decision.decide import evaluate_last_plan, plan_if_due
from levelwind.daemon.control.decision.ordered_plan import ended_proposal
from levelwind.daemon.control.gain.cooldown import TRIGGERED
from levelwind.daemon.control.members.live_member import Basis
from levelwind.daemon.control.policy import (
    Objection,
    PolicyState,
    Situation,
    Suppression,
    retry_pause,
)
from levelwind.daemon.control.settings import Cause
from levelwind.daemon.control.watched.watched_snapshot import WatchedSnapshot

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Mode
    from levelwind.daemon.control.context import ControlContext
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.planning import ComputedPlan
    from levelwind.daemon.control.settings import PlanSettings

GONE_SECONDS = 3600.0
"""Seconds after which a group that nothing names has no plan any more. They count anew from a start
of the daemon: the topics of lag and triggers may have been made anew meanwhile."""

FOLLOW_SECONDS = 30.0
"""Longest time that a plan which is not followed holds back triggers."""


def decide_watched(
    group: ManagedGroup,
    planning: PlanSettings,
    mode: Mode,
    context: ControlContext,
    *,
    may_plan: bool = True,
) -> Decision:
    """Evaluate the last plan, and make the next one if it is due.

    Args:
        group: the group.
        planning: the group's strategy.
        mode: how its plans are applied: `published`, `proxy` or `advisory`.
        context: settings, layouts and time.
        may_plan: whether a plan may be computed now; if one is due, the decision says so.
    """
    if group.unseen:
        return _decide_unseen(group, context)
    group = replace(group, unseen_since=None)
    snapshot = WatchedSnapshot(group, context)
    if not snapshot.members:
        return Decision(group=group)
    evaluated = evaluate_last_plan(_watched(group, snapshot), snapshot)
    group = evaluated.group
    planned = plan_if_due(
        group,
        _situation(group),
        planning,
        snapshot,
        may_plan=may_plan,
        publish=lambda of, cause, plan: _publish(of, cause, plan, mode, snapshot),
        object_to=lambda cause, plan: _repeats(group, cause, plan, context),
    )
    return evaluated.then(planned)


def _decide_unseen(group: ManagedGroup, context: ControlContext) -> Decision:
    """End the plan of a group that nothing has named for long, and forget what was due."""
    since = context.now if group.unseen_since is None else group.unseen_since
    if context.now - since < GONE_SECONDS:
        return Decision(group=replace(group, unseen_since=since))
    forgotten = replace(group, policy=PolicyState(), speeds=None)
    if group.plan is None:
        return Decision(group=forgotten)
    return end_plan(forgotten, "nothing has named the group for an hour")


def end_plan(group: ManagedGroup, reason: str) -> Decision:
    """Delete the plan of a group that is gone, or that the settings no longer have watched.

    A proposal ends with it: a group without a plan is forgotten once nothing names it.
    """
    epoch = max(group.next_epoch - 1, group.ledger.epoch)
    ended = replace(
        group,
        plan=None,
        basis=None,
        proposal=None,
        target={},
        ledger=replace(group.ledger, epoch=epoch),
    )
    event = LogEvent("plan.ended", {"group": group.name, "group_epoch": epoch, "reason": reason})
    records = (Tombstone(("g", group.name)), *ended_proposal(group))
    return Decision(group=ended, records=records, events=(event,))


def _watched(group: ManagedGroup, snapshot: WatchedSnapshot) -> ManagedGroup:
    """Note changes of members and topics, and whether the plan in force is followed."""
    now = snapshot.context.now
    plan = group.plan
    if group.basis is None and plan is not None and not (plan.orphans_only or group.policy.changes):
        group = replace(group, basis=Basis.planned(plan, {}))
    if group.basis != snapshot.basis and Cause.MEMBERSHIP not in group.policy.changes:
        group = group.changed(Cause.MEMBERSHIP, now)
    since = group.handover_since
    if since is None or (not _followed(group, snapshot) and now < since + FOLLOW_SECONDS):
        return group
    return replace(group, handover_since=None)


def _followed(group: ManagedGroup, snapshot: WatchedSnapshot) -> bool:
    """Whether each planned partition that has an owner is its planned member's."""
    owners = snapshot.seen_owners
    return all(
        owners.get(partition, member) == member
        for member, share in group.target.items()
        for partition in share
    )


def _situation(group: ManagedGroup) -> Situation:
    """Return what the policy weighs: a plan is settled once it is followed."""
    return Situation(
        has_members=True,
        settled=group.handover_since is None,
        raised=group.triggers.keys(),
        requested=group.operator is not None,
        paused=group.levers.paused,
    )


def _repeats(
    group: ManagedGroup, cause: Cause, plan: ComputedPlan, context: ControlContext
) -> Suppression | None:
    """Object to a plan for a trigger that says what the plan in force says."""
    if cause not in TRIGGERED or plan.target != group.target:
        return None
    pause = retry_pause(context.settings)
    return Suppression(Objection.CONFIRMED, context.now + pause, pause)


def _publish(
    group: ManagedGroup, cause: Cause, plan: ComputedPlan, mode: Mode, snapshot: WatchedSnapshot
) -> Decision:
    """Publish a plan with its assignment; an operator's request is fulfilled with it."""
    context = snapshot.context
    policy = group.policy.planned(cause, plan.proposal, context.now, context.settings)
    orphans_only = kept_plan.keeps_owners(group, cause, snapshot)
    record = plan_record.of(snapshot, cause, plan, policy, orphans_only=orphans_only)
    shares = {member: ranges.by_topic(share) for member, share in plan.target.items()}
    shards, cut = cut_assignments(group.name, record.group_epoch, shares)
    record = replace(
        record,
        mode=mode,
        members=tuple(
            PlannedMember(
                instance=name,
                incarnation=name,
                rack=member.rack,
                capacity=member.capacity,
                priority=member.priority,
                topics=tuple(sorted(member.topics)),
            )
            for name, member in sorted(snapshot.members.items())
        ),
        assignments=cut,
    )
    request = () if group.operator is None else (Tombstone(group.operator.key),)
    published = LogEvent("plan.published", plan_record.canonical(record, plan, cause))
    planned = replace(
        group,
        policy=policy,
        plan=record,
        basis=snapshot.basis,
        target=plan.target,
        operator=None,
        proposal=None,
        waiting_for_topics=False,
        handover_since=None if mode == "advisory" else context.now,
    )
    if orphans_only:
        planned = kept_plan.unsettled(planned, cause, context.now)
    return Decision(
        group=planned,
        records=(*shards, record, *request, *ended_proposal(group)),
        events=(published,),
        drafts=(draft(group, "published", cause, snapshot, plan=plan, record=record),),
    )
