"""Plan record: a plan as it is published, and the fields of its log line. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.patterns.topic_pattern import finds
from levelwind.assignors.protocol.records import (
    CertifiedObjective,
    GroupRecord,
    PlanCertificate,
    PlannedCauseCooldown,
    PlannedCooldown,
    PlannedMember,
    PlannedRacks,
    PlannedTopic,
    SpentMoves,
)
from levelwind.daemon.control.gain.cooldown import (
    HOUR_SECONDS,
    TRIGGERED,
    CauseCooldown,
    CooldownState,
    ExpectedGain,
)
from levelwind.daemon.control.settings import Cause

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import TopicRecord
    from levelwind.daemon.control.planning import ComputedPlan
    from levelwind.daemon.control.policy import PolicyState
    from levelwind.daemon.control.snapshot import GroupSnapshot


MINUTE_SECONDS = 60.0


def of(
    snapshot: GroupSnapshot,
    cause: Cause,
    plan: ComputedPlan,
    policy: PolicyState,
    *,
    begins_new: bool = False,
    orphans_only: bool = False,
) -> GroupRecord:
    """Return the record of a plan that was computed from a snapshot, and of the policy after it.

    Args:
        snapshot: the facts about the group.
        cause: cause of the plan.
        plan: the plan.
        policy: the policy once the plan is carried out.
        begins_new: whether members read partitions that are new to the group from their beginning.
        orphans_only: whether the plan moves nothing but orphans, since planning is frozen.
    """
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
            name: PlannedTopic(
                id=topic.id,
                partitions=topic.partitions,
                racks=racks(topic),
                new_from=new_from(topic, group.plan) if begins_new else None,
            )
            for name, topic in snapshot.topics.items()
        },
        members=tuple(
            PlannedMember(
                instance=incarnation.instance,
                incarnation=incarnation.incarnation,
                rack=live.record.rack,
                capacity=live.record.capacity,
                priority=live.record.priority,
                topics=tuple(sorted(set(live.record.topics))),
                pattern=live.record.pattern,
            )
            for incarnation, live in sorted(group.live.items())
        ),
        before=plan.before.as_json(),
        after=plan.after.as_json(),
        computed_at=context.at,
        digest=digest,
        certificate=_certificate(plan),
        cooldown=planned_cooldown(policy, context.now, context.at),
        levers=group.levers.digest,
        orphans_only=orphans_only or None,
    )


def new_from(topic: TopicRecord, last: GroupRecord | None) -> int | None:
    """Return the first partition of a topic that did not exist when plans began to cover it.

    A topic that was there again under another id is new as a whole. So is one that a member of the
    last plan subscribed to, if that plan had nothing of it and its layout was written after that.

    Args:
        topic: the layout that the next plan rests on.
        last: the group's last plan; None: none was made.

    Returns:
        The partition's number; None if all partitions did exist.
    """
    if last is None:
        return None
    planned = last.topics.get(topic.topic)
    if planned is None:
        read = any(
            topic.topic in (member.topics or ())
            or (member.pattern is not None and finds(member.pattern, topic.topic))
            for member in last.members
        )
        return 0 if read and topic.at > last.computed_at else None
    if planned.id != topic.id:
        return 0
    if planned.new_from is None and topic.partitions > planned.partitions:
        return planned.partitions
    return planned.new_from


def planned_cooldown(policy: PolicyState, now: float, at: int) -> PlannedCooldown:
    """Return a group's cooldown as its plan's record says it, by the wall clock.

    Args:
        policy: the policy with its cooldown, by the monotonic clock.
        now: the time on the monotonic clock, in seconds.
        at: the same time on the wall clock, in milliseconds since the epoch.
    """

    def wall(time: float) -> int:
        return max(at + round((time - now) * 1000), 0)

    cooldown = policy.cooldown
    # The plans of one minute and cause are written as one, at the time of the last of them.
    spent: dict[tuple[int, Cause], tuple[float, int]] = {}
    for time, cause, moves in cooldown.spent:
        if time > now - HOUR_SECONDS:
            minute = int(time // MINUTE_SECONDS), cause
            spent[minute] = (time, moves + spent.get(minute, (time, 0))[1])
    causes = {
        cause.value: PlannedCauseCooldown(
            until=wall(max(own.until, now - HOUR_SECONDS)), pause_ms=round(own.pause * 1000)
        )
        for cause, own in sorted(cooldown.causes.items())
    }
    expected = cooldown.expected
    return PlannedCooldown(
        # What a daemon of an older version reads, which keeps one cooldown for all causes.
        until=max((own.until for own in causes.values()), default=wall(now - HOUR_SECONDS)),
        pause_ms=max((own.pause_ms for own in causes.values()), default=0),
        causes=causes,
        skew_before=None,  # the gain of older versions, which had no unit
        skew_after=None,
        excess_before=None if expected is None else expected.before,
        excess_after=None if expected is None else expected.after,
        handover_ms=round(policy.handover * 1000),
        spent=tuple(
            SpentMoves(at=wall(time), cause=cause.value, moves=moves)
            for (_, cause), (time, moves) in spent.items()
        ),
    )


def recovered_cooldown(planned: PlannedCooldown, now: float, at: int) -> CooldownState:
    """Return the cooldown that a plan's record says; the inverse of `planned_cooldown`.

    The wall clock may have been set since. So what is left of a cooldown is at most its length, and
    moves count for at most an hour more.
    """

    def monotonic(time: int) -> float:
        return now + (time - at) / 1000

    def recovered(own: PlannedCauseCooldown) -> CauseCooldown:
        pause = own.pause_ms / 1000
        return CauseCooldown(until=min(monotonic(own.until), now + pause), pause=pause)

    causes = planned.causes
    if causes is None:  # written by an older version, which kept one cooldown for all causes
        common = PlannedCauseCooldown(until=planned.until, pause_ms=planned.pause_ms)
        causes = dict.fromkeys(TRIGGERED, common) if planned.pause_ms else {}
    before, after = planned.excess_before, planned.excess_after
    return CooldownState(
        causes={
            Cause(cause): recovered(own) for cause, own in causes.items() if cause in set(Cause)
        },
        expected=(
            None if before is None or after is None else ExpectedGain(before=before, after=after)
        ),
        spent=tuple(
            (min(monotonic(spent.at), now), Cause(spent.cause), spent.moves)
            for spent in planned.spent
            if spent.cause in set(Cause)
        ),
        tried=None,
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
        "mode": record.mode,
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
    return {
        "before": plan.before.as_json(),
        "after": plan.after.as_json(),
        "waiting": plan.waiting.as_json(),
    }
