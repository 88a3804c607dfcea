"""How unevenly a group's lag lies on its members at its newest moment. Pure functions of its state; `skew` is the rule.

Each partition's lag is its owner's, that of all topics together; a group whose owners nobody knows has no skew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignors.problem.member_load import lag_by_member, load_by_member, skew_of
from assignors.protocol.records import SkewEvidence
from streaming.rules.event_time import UNKNOWN
from streaming.rules.skew import (
    SkewRule,
    SkewRun,
    next_run,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.group.state import (
        GroupState,
        Owner,
        TopicLag,
    )
    from streaming.rules.event_time import Int64

EVEN = 1.0
"""The skew of a group without lag."""


def evaluate_skew(
    state: GroupState, owners: tuple[Owner, ...], rule: SkewRule
) -> tuple[SkewRun, SkewEvidence | None]:
    """The run of skew after the newest moment, and what it rests on; None: there is none."""
    if not any(owner.assigned for owner in owners):
        return SkewRun(evaluated_at=state.moment), None
    behind, owner_index = _owned_lag(owners, state.lags)
    capacity = np.array([owner.capacity for owner in owners])
    skew = skew_of(load_by_member(behind, owner_index, capacity)) or EVEN
    lag = sum(int(known.lag.sum()) for known in state.lags.values())
    seconds = max(known.seconds for known in state.lags.values()) if state.lags else 0.0
    members: dict[str, int] = {}
    for owner, share in zip(owners, lag_by_member(behind, owner_index, len(owners)), strict=True):
        members[owner.name] = members.get(owner.name, 0) + int(share)
    evidence = SkewEvidence(
        skew=round(skew, 6),
        threshold=rule.threshold,
        lag=lag,
        floor=rule.floor,
        members=members,
        seconds=seconds,
        floor_seconds=rule.floor_seconds,
    )
    return next_run(rule, state.run, at=state.moment, skew=skew, lag=lag, seconds=seconds), evidence


def source(state: GroupState) -> dict[str, int]:
    """By "topic/partition" of the input, up to where the group's lag was read."""
    furthest: dict[str, int] = {}
    for known in state.lags.values():
        for place, offset in known.source.items():
            furthest[place] = max(offset, furthest.get(place, UNKNOWN))
    return furthest


def _owned_lag(owners: tuple[Owner, ...], lags: Mapping[str, TopicLag]) -> tuple[Int64, Int64]:
    """Records behind, and the owner's index in `owners`, by owned partition that has a sample."""
    behind, owner_index = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for index, owner in enumerate(owners):
        for topic, partitions in owner.assigned.items():
            if (known := lags.get(topic)) is not None:
                owned = np.array(partitions, np.int64)
                sampled = known.lag[owned[owned < known.lag.size]]
                behind.append(sampled)
                owner_index.append(np.full(sampled.size, index))
    return np.concatenate(behind), np.concatenate(owner_index)
