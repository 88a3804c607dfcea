"""A plan as it is written down: the record that everybody reads, and the fields of the line in the log. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import (
    CertifiedObjective,
    GroupRecord,
    PlanCertificate,
    PlannedMember,
    PlannedRacks,
    PlannedTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors.protocol.records import LagRecord, TopicRecord
    from daemon.control.context import ControlContext
    from daemon.control.managed_group import ManagedGroup
    from daemon.control.planning import ComputedPlan
    from daemon.control.settings import Cause


def next_epoch(state: ManagedGroup) -> int:
    """The first group epoch that was never published."""
    return max(state.ledger.epoch, state.plan.group_epoch if state.plan else 0) + 1


def of(
    state: ManagedGroup,
    cause: Cause,
    plan: ComputedPlan,
    lags: Mapping[str, LagRecord],
    context: ControlContext,
) -> GroupRecord:
    """The record of a plan that was made of these lags."""
    epoch = next_epoch(state)
    shares = {
        instance: ranges.texts(ranges.by_topic(places)) for instance, places in plan.target.items()
    }
    digest = hashlib.sha256(repr((state.name, epoch, sorted(shares.items()))).encode()).hexdigest()
    topics = {name: topic for name, topic in context.topics.items() if state.reads(name)}
    return GroupRecord(
        group=state.name,
        mode="managed",
        planner_epoch=context.planner_epoch,
        group_epoch=epoch,
        plan_id=f"{epoch}-{digest[:8]}",
        strategy=plan.strategy,
        cause=cause.value,
        lag_at=min((record.at for record in lags.values()), default=None),
        metadata_at=metadata_at(state, context),
        topics={
            name: PlannedTopic(id=topic.id, partitions=topic.partitions, racks=racks(topic))
            for name, topic in topics.items()
        },
        members=tuple(
            PlannedMember(
                instance=who.instance,
                incarnation=who.incarnation,
                rack=live.record.rack,
                capacity=live.record.capacity,
            )
            for who, live in sorted(state.live.items())
        ),
        before=plan.before.as_json(),
        after=plan.after.as_json(),
        computed_at=context.at,
        digest=digest,
        certificate=_certificate(plan),
    )


def _certificate(plan: ComputedPlan) -> PlanCertificate | None:
    certificate = plan.certificate
    if certificate is None:
        return None
    return PlanCertificate(
        complete=certificate.complete,
        cut_by=certificate.cut_by,
        objectives={
            objective.name: CertifiedObjective(
                value=objective.value,
                bound=objective.bound,
                bound_kind=objective.bound_kind,
                partitions=objective.named,
            )
            for objective in certificate.objectives
        },
        summary=certificate.lines(),
    )


def racks(topic: TopicRecord) -> PlannedRacks:
    """The racks that a plan rests on: whoever restarts holds today's against them."""
    return PlannedRacks(at=topic.at, racks=topic.racks)


def metadata_at(state: ManagedGroup, context: ControlContext) -> int:
    """The time of the newest metadata that a plan of this group rests on."""
    return max((topic.at for name, topic in context.topics.items() if state.reads(name)), default=0)


def canonical(record: GroupRecord, plan: ComputedPlan, cause: Cause) -> dict[str, object]:
    """The fields of the one line that the log has of it."""
    return {
        "group": record.group,
        "group_epoch": record.group_epoch,
        "plan_id": record.plan_id,
        "strategy": record.strategy,
        "cause": cause.value,
        "members": len(record.members),
        "moved": len(plan.moved),
        "moves": ranges.texts(ranges.by_topic(plan.moved)),
        **scores(plan),
        "lag_at": record.lag_at,
        "metadata_at": record.metadata_at,
        "certificate": list(record.certificate.summary) if record.certificate else None,
    }


def scores(plan: ComputedPlan) -> dict[str, object]:
    """What was, and what would be."""
    return {"before": plan.before.as_json(), "after": plan.after.as_json()}
