"""Plans that an operator orders, and plans that wait for an operator's approval. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import ProposalRecord, Tombstone
from levelwind.daemon.control import plan_record
from levelwind.daemon.control.audit.decision_draft import draft
from levelwind.daemon.control.audit.group_decision import Decision
from levelwind.daemon.control.context import LogEvent
from levelwind.daemon.control.gain.cooldown import TRIGGERED
from levelwind.daemon.control.lever_set import only_necessary
from levelwind.daemon.control.policy import RECONSIDERED_SECONDS, Objection, Suppression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.members.live_member import Basis
    from levelwind.daemon.control.planning import ComputedPlan
    from levelwind.daemon.control.settings import Cause, PlanSettings
    from levelwind.daemon.control.snapshot import GroupSnapshot

Target = dict[str, dict[str, list[int]]]
"""Partitions of each instance, by topic."""


class OrderRefusedError(Exception):
    """An operator's order cannot be followed; the text says why."""


def planning_under(group: ManagedGroup, cause: Cause, of_file: PlanSettings) -> PlanSettings:
    """Return the settings of a plan for a cause, under the group's levers.

    What members, topics and levers ask of a paused group, or of one that asks for approval, moves
    only what must move.
    """
    planning = group.levers.planning(of_file)
    unasked = cause not in TRIGGERED and group.operator is None
    if unasked and group.plan is not None and (group.levers.paused or of_file.approval):
        return only_necessary(planning)
    return planning


def ordered_target(group: ManagedGroup, snapshot: GroupSnapshot) -> Target | None:
    """Return the assignment that the operator's request names; None: a plan is to be computed.

    Raises:
        OrderRefusedError: there is no such proposal, or it is stale.
    """
    request = group.operator
    if request is None or request.action == "rebalance":
        return None
    if request.action == "apply":
        return _as_lists(request.target or {})
    proposal = group.proposal
    if proposal is None:
        raise OrderRefusedError("no plan waits for approval")
    if request.plan not in (None, proposal.plan_id):
        raise OrderRefusedError(
            f"plan {request.plan} does not wait for approval; {proposal.plan_id} does"
        )
    if proposal.basis != basis_digest(snapshot.basis):
        raise OrderRefusedError(f"plan {proposal.plan_id} is stale: members or topics have changed")
    return _as_lists(proposal.target)


def _as_lists(target: Mapping[str, Mapping[str, tuple[int, ...]]]) -> Target:
    return {
        member: {topic: list(numbers) for topic, numbers in share.items()}
        for member, share in target.items()
    }


def basis_digest(basis: Basis) -> str:
    """Return a hash of the members and topics that a plan is for."""
    members = [
        (name, sorted(profile.topics), *profile[1:]) for name, profile in basis.members.items()
    ]
    facts = repr((sorted(members, key=repr), sorted(basis.topics.items())))
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def needs_approval(group: ManagedGroup, cause: Cause, planning: PlanSettings) -> bool:
    """Whether a computed plan is to wait for an operator's approval."""
    if not planning.approval:
        return False
    request = group.operator
    return cause in TRIGGERED or (request is not None and request.action == "rebalance")


def propose(
    group: ManagedGroup, cause: Cause, plan: ComputedPlan, snapshot: GroupSnapshot
) -> Decision:
    """Let a plan wait for approval; one that says what the waiting plan says replaces nothing."""
    context = snapshot.context
    pause = max(context.settings.cooldown.duration, RECONSIDERED_SECONDS)
    policy = group.policy.suppress(
        cause, Suppression(Objection.APPROVAL, context.now + pause, pause)
    )
    request = () if group.operator is None else (Tombstone(group.operator.key),)
    waiting = replace(group, policy=policy, operator=None)
    record = _proposal(group, cause, plan, snapshot)
    last = group.proposal
    if last is not None and (last.basis, last.target) == (record.basis, record.target):
        return Decision(group=waiting, records=request)
    fields = {
        "group": group.name,
        "plan_id": record.plan_id,
        "cause": cause.value,
        "strategy": plan.strategy,
        "moved": len(plan.moved),
        **plan_record.scores(plan),
    }
    return Decision(
        group=replace(waiting, proposal=record),
        records=(record, *request),
        events=(LogEvent("plan.proposed", fields),),
        drafts=(draft(group, "proposed", cause, snapshot, plan=plan, plan_id=record.plan_id),),
    )


def _proposal(
    group: ManagedGroup, cause: Cause, plan: ComputedPlan, snapshot: GroupSnapshot
) -> ProposalRecord:
    target = {
        member: ranges.by_topic(share) for member, share in sorted(plan.target.items()) if share
    }
    shares = repr([(member, sorted(ranges.texts(own).items())) for member, own in target.items()])
    digest = hashlib.sha256(f"{group.name} {snapshot.context.at} {shares}".encode()).hexdigest()
    return ProposalRecord(
        group=group.name,
        at=snapshot.context.at,
        plan_id=f"p{group.next_epoch}-{digest[:8]}",
        cause=cause.value,
        strategy=plan.strategy,
        basis=basis_digest(snapshot.basis),
        moves=len(plan.moved),
        before=plan.before.as_json(),
        after=plan.after.as_json(),
        target=target,
    )


def refuse_order(
    group: ManagedGroup, cause: Cause, reason: str, snapshot: GroupSnapshot
) -> Decision:
    """Take back an operator's request that cannot be followed, and say why."""
    request = group.operator
    if request is None:
        return Decision(group=group)
    fields = {
        "group": group.name,
        "action": request.action,
        "plan_id": request.plan,
        "by": request.by,
        "reason": reason,
    }
    return Decision(
        group=replace(group, operator=None),
        records=(Tombstone(request.key),),
        events=(LogEvent("request.refused", fields),),
        drafts=(draft(group, "refused", cause, snapshot, reason=reason),),
    )


def ended_proposal(group: ManagedGroup) -> tuple[Tombstone, ...]:
    """Return the end of the waiting proposal, which another plan has made stale."""
    return () if group.proposal is None else (Tombstone(group.proposal.key),)
