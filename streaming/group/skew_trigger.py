"""How unevenly a group's lag lies on its members at its newest moment. Pure functions of its state; `skew` is the rule.

Each partition's lag is its owner's, that of all topics together; a group whose owners nobody knows has no skew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignors.protocol.records import SkewEvidence
from streaming.rules.event_time import UNKNOWN
from streaming.rules.skew import (
    SkewRule,
    SkewRun,
    next_run,
    skew_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.group.state import (
        GroupState,
        Owner,
        TopicLag,
    )


def evaluate_skew(
    state: GroupState, owners: tuple[Owner, ...], rule: SkewRule
) -> tuple[SkewRun, SkewEvidence | None]:
    """The run of skew after the newest moment, and what it rests on; None: there is none."""
    if not any(owner.assigned for owner in owners):
        return SkewRun(evaluated_at=state.moment), None
    shares = [_share(owner, state.lags) for owner in owners]
    loads = np.array([share / owner.capacity for share, owner in zip(shares, owners, strict=True)])
    skew = skew_of(loads)
    lag = sum(int(known.lag.sum()) for known in state.lags.values())
    seconds = max(known.seconds for known in state.lags.values()) if state.lags else 0.0
    members: dict[str, int] = {}
    for owner, share in zip(owners, shares, strict=True):
        members[owner.name] = members.get(owner.name, 0) + share
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


def _share(owner: Owner, lags: Mapping[str, TopicLag]) -> int:
    """The lag of what a member owns."""
    total = 0
    for topic, partitions in owner.assigned.items():
        if (known := lags.get(topic)) is not None:
            owned = np.array(partitions, np.int64)
            total += int(known.lag[owned[owned < known.lag.size]].sum())
    return total
