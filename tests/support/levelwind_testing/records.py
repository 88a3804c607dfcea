"""Builders of records: one for each kind, valid, of which a test names only what matters."""

import time

from levelwind.assignors.protocol.records import (
    NO_SUBJECT,
    GroupRecord,
    LagRecord,
    LeverRecord,
    MemberAssignment,
    MemberRecord,
    OffsetsRecord,
    OperatorRecord,
    ProposalRecord,
    RackChange,
    RacksEvidence,
    SkewEvidence,
    TopicRecord,
    TriggerRecord,
    encode,
)
from levelwind.assignors.protocol.unread_lag import left_unread

TOPIC_ID = "A" * 22
"""The id of every topic that a test does not recreate."""


def topic(name="t", racks=((), (), (), ()), *, at=1000, topic_id=TOPIC_ID):
    """A topic's layout with one broker; `racks`: of the replicas, by partition."""
    count = len(racks)
    return TopicRecord(
        topic=name,
        at=at,
        id=topic_id,
        leader=(1,) * count,
        replicas=((1,),) * count,
        isr=((1,),) * count,
        racks=tuple(map(tuple, racks)),
    )


def offsets(
    topic,
    ends,
    *,
    at,
    begin=None,
    high=None,
    topic_id=TOPIC_ID,
    gaps=None,
    offsets_topic_ends=None,
):
    """A topic's offsets; `ends`: stable offsets by partition, and high watermarks by default."""
    return OffsetsRecord(
        topic=topic,
        at=at,
        id=topic_id,
        begin=tuple(begin or (0,) * len(ends)),
        stable=tuple(ends),
        high=tuple(high or ends),
        gaps=gaps and tuple(gaps),
        offsets_topic_ends=offsets_topic_ends,
    )


def lag(*behind, group="g", topic="t", at=2000, ends=None, racks=None, topic_id=TOPIC_ID, **more):
    """A group's lag; `behind`: records by partition; `ends`: log ends, by default the same."""
    count = len(behind)
    ends = tuple(behind if ends is None else ends)
    return LagRecord(
        group=group,
        topic=topic,
        at=at,
        id=topic_id,
        end_kind="stable",
        committed=tuple(end - left for end, left in zip(ends, behind, strict=True)),
        committed_at=(at,) * count,
        begin=(0,) * count,
        end=ends,
        lag=tuple(behind),
        lost=(0,) * count,
        stale=(),
        racks=racks or ((),) * count,
        source={},
        **more,
    )


def unread(record, damage=(b"", b"")):
    """A sample as the daemon takes it in, with a part of its bytes replaced by another."""
    return left_unread(record.group, record.topic, encode(record)[1].replace(*damage))


def lag_of_owners(held, *behind, **fields):
    """A group's lag now; `held`: the partitions of each member, by name."""
    names = sorted(held)
    owner = [-1] * len(behind)
    for index, name in enumerate(names):
        for number in held[name]:
            owner[number] = index
    at = round(time.time() * 1000)
    return lag(*behind, at=at, members=tuple(names), owner=tuple(owner), **fields)


def member(
    instance,
    *,
    group="g",
    incarnation="i1",
    topics=("t",),
    rack=None,
    state="joining",
    acked=0,
    planner_epoch=0,
    owned=None,
    starting=None,
    heartbeat=0,
    **more,
):
    """An announcement; `acked`: the acknowledged epoch, `owned`: partitions by topic."""
    return MemberRecord(
        group=group,
        instance=instance,
        incarnation=incarnation,
        client="test",
        client_version="1",
        topics=tuple(topics),
        rack=rack,
        priority=0,
        capacity=1.0,
        state=state,
        planner_epoch=planner_epoch,
        acked_epoch=acked,
        owned=owned or {},
        starting=starting or {},
        nack=None,
        features=(),
        heartbeat=heartbeat,
        **{
            "hold_ms": 20_000,
            "commit_ms": 12_000,
            "max_poll_interval_ms": 300_000,
            "transactional_id": None,
            **more,
        },
    )


def assignment(
    instance, assigned, *, group="g", incarnation="i1", rack=None, capacity=1.0, reason=""
):
    """The assignment of an active member; `assigned`: partitions by topic."""
    return MemberAssignment(
        group=group,
        instance=instance,
        incarnation=incarnation,
        planner_epoch=1,
        group_epoch=1,
        member_epoch=1,
        state="active",
        assigned=assigned,
        pending={},
        revoking={},
        rack=rack,
        capacity=capacity,
        reason=reason,
    )


def plan(group="g", *, strategy="optimal", cause="skew", before=None, after=None, **more):
    """A plan of no topics and members; `before`, `after`: its scores."""
    fields = {"topics": {}, "members": (), "lag_at": None, "metadata_at": None, **more}
    return GroupRecord(
        group=group,
        mode="managed",
        planner_epoch=1,
        group_epoch=1,
        plan_id="1-0",
        strategy=strategy,
        cause=cause,
        before=before,
        after=after,
        computed_at=1_000,
        digest="",
        **fields,
    )


def request(group="g", *, at=1, reason=""):
    """An operator's request for a plan."""
    return OperatorRecord(group=group, at=at, by="me", action="rebalance", reason=reason)


def lever(kind, subject=NO_SUBJECT, setting=None, *, group="g", at=1, by="me@here", reason=""):
    """A lever in force."""
    return LeverRecord(
        group=group, kind=kind, subject=subject, setting=setting, at=at, by=by, reason=reason
    )


def proposal(target, *, plan_id="1-0", at=1, strategy="optimal", basis="b", after=None):
    """A proposal of one move that waits for approval; `target`: partitions of each member."""
    return ProposalRecord(
        group="g",
        at=at,
        plan_id=plan_id,
        cause="skew",
        strategy=strategy,
        basis=basis,
        moves=1,
        before=None,
        after=after,
        target=target,
    )


def trigger(evidence, *, group="g", at=1, since=None):
    """An active trigger; `since`: by default it was raised at `at`."""
    since = at if since is None else since
    return TriggerRecord(group=group, at=at, since=since, evidence=evidence, source={})


def skew_evidence(**more):
    """A member of load 40 s where 20 s could be reached."""
    figures = {
        "heaviest": 40.0,
        "best": 20.0,
        "threshold": 1.25,
        "floor_seconds": 3.0,
        "utilisation": 0.5,
        "best_utilisation": 0.5,
        "utilisation_limit": 0.85,
        "backlog": 100_000,
        "arrivals": 1000.0,
        "capacity": 6000.0,
        "assumed": False,
        "horizon": 20.0,
        "skew": 2.0,
        "members": {},
    }
    return SkewEvidence(**(figures | more))


def skew_trigger(at=3000, since=2000):
    """A skew of 2."""
    return trigger(skew_evidence(), at=at, since=since)


def racks_trigger(at=3000):
    """Partition 0 of topic t has moved from rack a to rack b."""
    evidence = RacksEvidence(topics={"t": {0: RackChange(before=("a",), after=("b",))}})
    return trigger(evidence, at=at)
