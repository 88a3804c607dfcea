"""Skew of a group's work over its members at its newest sample, evaluated by the rule of `skew`.

What waits in a partition and arrives there counts for its owner, that of all its topics together. A
group without known owners has no skew. All functions are pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.drain import skew_of
from levelwind.assignors.protocol.records import MemberLoad, SkewEvidence
from levelwind.streaming.group.member_speeds import is_behind, published_speed, speeds_of
from levelwind.streaming.group.ownership import claim_of
from levelwind.streaming.messages.lag_json import Claim
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.member_loads import MemberLoads
from levelwind.streaming.rules.skew import WAITING_SECONDS, SkewRule, SkewRun, next_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.streaming.group.state import GroupState, Owner, TopicLag
    from levelwind.streaming.rules.event_time import Int64
    from levelwind.streaming.rules.skew import SkewFigures

EVEN = 1.0
"""The skew of a group without load."""
NO_LOAD = MemberLoad(seconds=0.0, backlog=0, arrivals=0.0, capacity=0.0)


def evaluate_skew(
    state: GroupState, owners: tuple[Owner, ...], rule: SkewRule
) -> tuple[SkewRun, SkewEvidence | None]:
    """The run of skew after the newest sample, and its evidence.

    Args:
        state: the group's state; its newest sample is the one to evaluate.
        owners: the group's members at that time.
        rule: when skew counts.

    Returns:
        The run, and None as evidence where no member owns anything.
    """
    if not any(owner.assigned for owner in owners):
        return SkewRun(evaluated_at=state.sampled_at), None
    lag, rate, owner_index = _owned_work(owners, state.lags)
    loads = MemberLoads.of(
        lag=lag,
        rate=rate,
        owner=owner_index,
        announced=np.array([owner.capacity for owner in owners]),
        speed=speeds_of(state, owners),
    )
    waits = [
        topic_lag.seconds
        for topic, topic_lag in state.lags.items()
        if claim_of(owners, topic) is not Claim.NONE
    ]
    oldest = max(waits, default=0.0)
    figures = loads.figures(waiting=oldest >= WAITING_SECONDS or is_behind(state, owners))
    run = next_run(rule, state.skew_run, figures, at=state.sampled_at)
    raised = run.active and not state.skew_run.active
    return run, _evidence(owners, loads, figures, rule) if raised else None


def lag_source(state: GroupState) -> dict[str, int]:
    """The offset up to which the input was read for the group's lag, by "topic/partition"."""
    newest: dict[str, int] = {}
    for topic_lag in state.lags.values():
        for partition, offset in topic_lag.source.items():
            newest[partition] = max(offset, newest.get(partition, UNKNOWN))
    return newest


def _evidence(
    owners: tuple[Owner, ...], loads: MemberLoads, figures: SkewFigures, rule: SkewRule
) -> SkewEvidence:
    members: dict[str, MemberLoad] = {}
    for index, owner in enumerate(owners):
        former = members.get(owner.name, NO_LOAD)  # two incarnations of an instance add up
        members[owner.name] = MemberLoad(
            seconds=round(former.seconds + float(loads.load[index]), 3),
            backlog=former.backlog + int(loads.lag[index]),
            arrivals=_rate(former.arrivals + float(loads.rate[index])),
            capacity=_rate(float(loads.capacity[index])),
        )
    return SkewEvidence(
        heaviest=round(figures.heaviest, 3),
        best=round(figures.best, 3),
        threshold=float(rule.threshold),
        floor_seconds=float(rule.floor_seconds),
        utilisation=round(figures.utilisation, 6),
        best_utilisation=round(figures.best_utilisation, 6),
        utilisation_limit=rule.utilisation,
        backlog=int(loads.lag.sum()),
        arrivals=_rate(float(loads.rate.sum())),
        capacity=_rate(float(loads.capacity.sum())),
        assumed=figures.assumed,
        horizon=round(loads.horizon, 3),
        skew=round(skew_of(loads.load) or EVEN, 6),
        members=members,
    )


def _rate(records: float) -> float:
    """Records a second as the evidence has them: of a slow member they are not rounded to 0."""
    return published_speed(records, 3) if records > 0 else 0.0


def _owned_work(
    owners: tuple[Owner, ...], lags: Mapping[str, TopicLag]
) -> tuple[Int64, Int64, Int64]:
    """Records, rate, and the owner's index in `owners`, by owned partition that has a sample.

    Partitions are collected by topic first: a NumPy call for each topic is cheaper than one for
    each topic of each member.
    """
    partitions: dict[str, list[int]] = {topic: [] for topic in lags}
    indices: dict[str, list[int]] = {topic: [] for topic in lags}
    for index, owner in enumerate(owners):
        for topic, owned in owner.assigned.items():
            if topic in lags:
                partitions[topic] += owned
                indices[topic] += [index] * len(owned)
    none = np.zeros(0, np.int64)
    lag_columns, rate_columns, owner_columns = [none], [none], [none]
    for topic, topic_lag in lags.items():
        number = np.array(partitions[topic], np.int64)
        sampled = number < topic_lag.lag.size
        lag_columns.append(topic_lag.lag[number[sampled]])
        rate_columns.append(topic_lag.rate[number[sampled]])
        owner_columns.append(np.array(indices[topic], np.int64)[sampled])
    return (
        np.concatenate(lag_columns),
        np.concatenate(rate_columns),
        np.concatenate(owner_columns),
    )
