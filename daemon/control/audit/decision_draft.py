"""Drafts of the audit trail: what a decision was made from, and what became of it. Pure.

A draft only refers to values that the decision has anyway; the daemon encodes it when it is
published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import GroupRecord, OperatorRecord, Outcome
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.planning import ComputedPlan
    from levelwind.daemon.control.settings import Cause
    from levelwind.daemon.control.snapshot import GroupSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDraft:
    """One decision about a group."""

    group: str
    outcome: Outcome
    cause: str
    at: int
    """When it was decided, in milliseconds since the epoch."""
    planner_epoch: int
    reason: str = ""
    """Why no plan was published; empty where one was."""
    plan: ComputedPlan | None = None
    """The plan that was computed, be it published or not; None where none was."""
    plan_id: str | None = None
    """The name of the plan that was published or proposed."""
    group_epoch: int | None = None
    """The epoch of the plan that was published."""
    lag_at: int | None = None
    """Time of the oldest lag that the plan rests on, in milliseconds since the epoch."""
    metadata_at: int | None = None
    """Time of the newest topic layout that the plan rests on, likewise."""
    levers: str | None = None
    """The digest of the levers that hold for the group."""
    request: OperatorRecord | None = None
    """The operator's request that was answered."""


def draft(
    group: ManagedGroup,
    outcome: Outcome,
    cause: Cause,
    snapshot: GroupSnapshot,
    *,
    plan: ComputedPlan | None = None,
    record: GroupRecord | None = None,
    plan_id: str | None = None,
    reason: str = "",
) -> DecisionDraft:
    """Return the draft of a decision about a group as it was before the decision.

    Args:
        group: the group, with the operator's request that was answered.
        outcome: what became of the decision.
        cause: why there was something to decide.
        snapshot: the group and its topics, as the decision saw them.
        plan: the plan that was computed.
        record: the record of the plan that was published or confirmed.
        plan_id: the name of a plan that has no such record.
        reason: why no plan was published.
    """
    context = snapshot.context
    return DecisionDraft(
        group=group.name,
        outcome=outcome,
        cause=cause.value,
        at=context.at,
        planner_epoch=context.planner_epoch,
        reason=reason,
        plan=plan,
        plan_id=record.plan_id if record else plan_id,
        group_epoch=record.group_epoch if record else None,
        lag_at=record.lag_at if record else None,
        metadata_at=record.metadata_at if record else None,
        levers=group.levers.digest,
        request=group.operator,
    )
