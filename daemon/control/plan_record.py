"""Plan record: a plan as it is published, and the fields of its log line. Pure."""

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
    from assignors.protocol.records import TopicRecord
    from daemon.control.planning import ComputedPlan
    from daemon.control.settings import Cause
    from daemon.control.snapshot import GroupSnapshot


def of(snapshot: GroupSnapshot, cause: Cause, plan: ComputedPlan) -> GroupRecord:
    """Return the record of a plan that was computed from a snapshot."""
    group, context = snapshot.group, snapshot.context
    epoch = group.next_epoch
    shares = {
        instance: ranges.texts(ranges.by_topic(partitions))
        for instance, partitions in plan.target.items()
    }
    digest = hashlib.sha256(repr((group.name, epoch, sorted(shares.items()))).encode()).hexdigest()
    return GroupRecord(
        group=group.name,
        mode="managed",
        planner_epoch=context.planner_epoch,
        group_epoch=epoch,
        plan_id=f"{epoch}-{digest[:8]}",
        strategy=plan.strategy,
        cause=cause.value,
        lag_at=min((record.at for record in snapshot.lags.values()), default=None),
        metadata_at=snapshot.metadata_at,
        topics={
            name: PlannedTopic(id=topic.id, partitions=topic.partitions, racks=racks(topic))
            for name, topic in snapshot.topics.items()
        },
        members=tuple(
            PlannedMember(
                instance=incarnation.instance,
                incarnation=incarnation.incarnation,
                rack=live.record.rack,
                capacity=live.record.capacity,
            )
            for incarnation, live in sorted(group.live.items())
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
                partitions=objective.partition_names,
            )
            for objective in certificate.objectives
        },
        summary=certificate.lines(),
    )


def racks(topic: TopicRecord) -> PlannedRacks:
    """Return the racks that a plan rests on; a restarted pipeline compares them with today's."""
    return PlannedRacks(at=topic.at, racks=topic.racks)


def canonical(record: GroupRecord, plan: ComputedPlan, cause: Cause) -> dict[str, object]:
    """Return the fields of the one log line of a published plan."""
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
    """Return the scores of the assignment in force and of a plan."""
    return {"before": plan.before.as_json(), "after": plan.after.as_json()}
