"""Skew of a group's lag over its members at its newest sample, evaluated by the rule of `skew`.

The lag of a partition counts for its owner, and a member's lag is that of all its topics together.
A group without known owners has no skew. All functions are pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignors.problem.drain import skew_of, sum_by_member
from assignors.protocol.records import SkewEvidence
from streaming.rules.event_time import UNKNOWN
from streaming.rules.skew import SkewRule, SkewRun, next_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.group.state import GroupState, Owner, TopicLag
    from streaming.rules.event_time import Int64

EVEN = 1.0
"""The skew of a group without lag."""


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
    behind, owner_index = _owned_lag(owners, state.lags)
    member_lag = sum_by_member(behind, owner_index, len(owners))
    skew = skew_of(member_lag / np.array([owner.capacity for owner in owners])) or EVEN
    lag = sum(int(topic_lag.lag.sum()) for topic_lag in state.lags.values())
    seconds = max([topic_lag.seconds for topic_lag in state.lags.values()], default=0.0)
    members: dict[str, int] = {}
    for owner, owned_lag in zip(owners, member_lag, strict=True):
        members[owner.name] = members.get(owner.name, 0) + int(owned_lag)
    evidence = SkewEvidence(
        skew=round(skew, 6),
        threshold=rule.threshold,
        lag=lag,
        floor=rule.floor,
        members=members,
        seconds=seconds,
        floor_seconds=rule.floor_seconds,
    )
    return next_run(
        rule, state.skew_run, at=state.sampled_at, skew=skew, lag=lag, seconds=seconds
    ), evidence


def lag_source(state: GroupState) -> dict[str, int]:
    """The offset up to which the input was read for the group's lag, by "topic/partition"."""
    newest: dict[str, int] = {}
    for topic_lag in state.lags.values():
        for partition, offset in topic_lag.source.items():
            newest[partition] = max(offset, newest.get(partition, UNKNOWN))
    return newest


def _owned_lag(owners: tuple[Owner, ...], lags: Mapping[str, TopicLag]) -> tuple[Int64, Int64]:
    """Records behind, and the owner's index in `owners`, by owned partition that has a sample.

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
    columns, owner_columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for topic, topic_lag in lags.items():
        number = np.array(partitions[topic], np.int64)
        sampled = number < topic_lag.lag.size
        columns.append(topic_lag.lag[number[sampled]])
        owner_columns.append(np.array(indices[topic], np.int64)[sampled])
    return np.concatenate(columns), np.concatenate(owner_columns)
