"""Skew of many groups at once: `rules.member_loads` and the rule of `rules.skew`, in columns.

A sum of columns may be rounded in another order than that of a group alone. So a group whose
figures are within `ROUNDING` of what counts is computed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levelwind.assignors.problem.columns import starts
from levelwind.assignors.problem.drain import (
    ASSUMED_DRAIN_SECONDS,
    ASSUMED_UTILISATION,
    LEAST_ASSUMED_SPEED,
    capacity_at_pace,
    horizons,
    load_seconds,
)
from levelwind.streaming.bucket.speed_columns import speeds_of
from levelwind.streaming.bucket.state import ranges
from levelwind.streaming.messages.lag_json import Claim
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.member_loads import RATE_SCALE, MemberLoads
from levelwind.streaming.rules.skew import (
    LONG_LAG_SECONDS,
    RELEASE,
    WAITING_SECONDS,
    drain_counts,
    skew_counts,
    utilisation_counts,
)

if TYPE_CHECKING:
    from levelwind.streaming.bucket.state import BucketState
    from levelwind.streaming.rules.event_time import Floats, Int64, Mask
    from levelwind.streaming.rules.skew import SkewRule

ROUNDING = 1e-9
"""Relative difference within which a figure may have been rounded otherwise."""


class Judgement(NamedTuple):
    """By group, what the rule says of its newest samples."""

    counts: Mask
    """Whether its skew counts."""
    ready: Mask
    """Whether it may become a trigger: a speed is known, or records wait beyond doubt."""


class _Loads(NamedTuple):
    """Loads of some groups; columns by group, and of their members one after another."""

    owner: Int64
    """By member, its index in the bucket."""
    first: Int64
    """By group, its first member."""
    lag: Floats
    """Records that wait."""
    speed: Floats
    capacity: Floats
    assumed: Mask
    horizon: Floats
    total: Floats
    """Records per second that all members can read."""
    work: Floats
    """Records of the horizon."""
    arrivals: Floats
    """Records per second."""
    heaviest: Floats
    lightest: Floats
    utilisation: Floats


def judge(
    state: BucketState, groups: Int64, member_lag: Floats, member_rate: Floats, rule: SkewRule
) -> Judgement:
    """Judge the newest samples of some groups, each with at least one member.

    Args:
        state: the bucket.
        groups: indices of the groups.
        member_lag: records that wait, by owner of the bucket.
        member_rate: records that arrive in `RATE_SCALE` seconds, by owner of the bucket.
        rule: settings of the rule.
    """
    loads = _loads(state, groups, member_lag, member_rate)
    share = np.where(state["active"][groups], RELEASE, 1.0)
    best, best_utilisation = loads.work / loads.total, loads.arrivals / loads.total
    # Beside a partition that no plan can split, another load than the largest may count; none is
    # further above the level of its rank than above the lightest load.
    maybe = _counts(rule, loads, loads.lightest, best_utilisation, share, 1 + ROUNDING)
    counts = np.zeros(groups.size, np.bool_)
    if (some := np.flatnonzero(maybe)).size:
        work, rate = _heaviest_partitions(state, groups[some], loads.horizon[some])
        fastest = np.maximum.reduceat(loads.capacity, loads.first)[some]
        unsplittable = some[work / fastest >= best[some] * (1 - ROUNDING)]
        best[some] = np.maximum(best[some], work / fastest)
        best_utilisation[some] = np.maximum(best_utilisation[some], rate / fastest)
        counts, certain = (
            _counts(rule, loads, best, best_utilisation, share, factor)
            for factor in (1 + ROUNDING, 1 - ROUNDING)
        )
        unclear = np.union1d(np.flatnonzero(counts != certain), unsplittable)
        for index in unclear.tolist():
            counts[index] = _counts_alone(state, int(groups[index]), rule, loads, index)
    ready = ~loads.assumed | _waiting(state, groups, loads)
    long, certain = (_lag_is_long(loads, factor) for factor in (1 + ROUNDING, 1 - ROUNDING))
    for index in np.flatnonzero(~ready & (long != certain)).tolist():
        long[index] = _alone(state, int(groups[index]), loads, index).lag_is_long
    return Judgement(counts=counts, ready=ready | long)


def _loads(state: BucketState, groups: Int64, member_lag: Floats, member_rate: Floats) -> _Loads:
    owners = state["owners"][groups].astype(np.int64)
    owner = ranges(state.first_owner[groups], owners)
    first = np.cumsum(owners) - owners
    lag, rate = member_lag[owner], member_rate[owner] / RATE_SCALE
    backlog, arrivals = np.add.reduceat(lag, first), np.add.reduceat(rate, first)
    speed = speeds_of(state, owner)
    capacity, assumed = _capacities(
        state["capacity"][owner],
        speed,
        np.repeat(np.arange(groups.size), owners),
        backlog,
        arrivals,
        rate,
        lag,
    )
    total = np.add.reduceat(capacity, first)
    horizon = horizons(backlog, arrivals, total)
    load = load_seconds(lag, rate, capacity, np.repeat(horizon, owners))
    return _Loads(
        owner=owner,
        first=first,
        lag=lag,
        speed=speed,
        capacity=capacity,
        assumed=assumed,
        horizon=horizon,
        total=total,
        work=backlog + arrivals * horizon,
        arrivals=arrivals,
        heaviest=np.maximum.reduceat(load, first),
        lightest=np.minimum.reduceat(load, first),
        utilisation=np.maximum.reduceat(rate / capacity, first),
    )


def _capacities(
    announced: Floats,
    speed: Floats,
    group: Int64,
    backlog: Floats,
    arrivals: Floats,
    pace: Floats,
    lag: Floats,
) -> tuple[Floats, Mask]:
    """Resolve the capacities of the members of several groups; see `resolve_capacities`."""
    announced_total = np.bincount(group, weights=announced, minlength=backlog.size)
    wanted = np.where(arrivals > 0, arrivals / ASSUMED_UTILISATION, backlog / ASSUMED_DRAIN_SECONDS)
    unit = np.maximum(wanted / announced_total, LEAST_ASSUMED_SPEED)
    known = np.flatnonzero(np.isfinite(speed))
    count = np.bincount(group[known], minlength=backlog.size)
    if known.size:
        ratio = speed[known] / announced[known]
        ratio = ratio[np.lexsort((ratio, group[known]))]
        some = np.flatnonzero(count)
        first = np.cumsum(count[some]) - count[some]
        middle = (first + (count[some] - 1) // 2, first + count[some] // 2)
        unit[some] = (ratio[middle[0]] + ratio[middle[1]]) / 2
    expected = announced * unit[group]
    beside_known = np.maximum(expected, capacity_at_pace(pace, lag))
    expected = np.where(count[group] > 0, beside_known, expected)
    return np.where(np.isfinite(speed), speed, expected), count == 0


def _counts(
    rule: SkewRule,
    loads: _Loads,
    best: Floats,
    best_utilisation: Floats,
    share: Floats,
    factor: float,
) -> Mask:
    """Whether skew counts, with all differences made larger, or smaller, by a factor."""
    drain = drain_counts(rule, loads.heaviest * factor, best / factor, share)
    utilisation = utilisation_counts(
        rule, loads.utilisation * factor, best_utilisation / factor, loads.assumed, share
    )
    counts: Mask = np.asarray(drain | utilisation, np.bool_)
    return counts


def _heaviest_partitions(
    state: BucketState, groups: Int64, horizon: Floats
) -> tuple[Floats, Floats]:
    """Of each group, the most records within the horizon, and per second, of an owned partition."""
    cells, claims_by_group = _owned_cells(state, groups)
    index = np.repeat(np.arange(groups.size), claims_by_group)
    partition_rate = state["rate"][cells] / RATE_SCALE
    partition_work = state["lag"][cells] + partition_rate * horizon[index]
    work, rate = np.zeros(groups.size), np.zeros(groups.size)
    np.maximum.at(work, index, partition_work)
    np.maximum.at(rate, index, partition_rate)
    return work, rate


def _owned_cells(state: BucketState, groups: Int64) -> tuple[Int64, Int64]:
    """The cells of the partitions that members of some groups own, and their number by group."""
    entries = state["entries"][groups].astype(np.int64)
    entry = ranges(state.first_entry[groups], entries)
    claims = state["claims"][entry].astype(np.int64)
    claim = ranges(state.first_claim[entry], claims)
    cells = np.repeat(state.first_cell[entry], claims) + state["cell"][claim]
    bounds = starts(claims)
    last = np.cumsum(entries)
    return cells, bounds[last] - bounds[last - entries]


def _counts_alone(
    state: BucketState, group: int, rule: SkewRule, loads: _Loads, index: int
) -> bool:
    """Whether the skew of a group counts, computed as for a group alone."""
    figures = _alone(state, group, loads, index).figures(waiting=True)
    return skew_counts(rule, figures, active=bool(state["active"][group]))


def _alone(state: BucketState, group: int, loads: _Loads, index: int) -> MemberLoads:
    """The loads of a group, computed as for a group alone."""
    number = np.array([group])
    members = int(state["owners"][group])
    of_group = slice(loads.first[index], loads.first[index] + members)
    entry = ranges(state.first_entry[number], state["entries"][number].astype(np.int64))
    claim = ranges(state.first_claim[entry], state["claims"][entry].astype(np.int64))
    cells, _ = _owned_cells(state, number)
    return MemberLoads.of(
        lag=state["lag"][cells],
        rate=state["rate"][cells].astype(np.int64),
        owner=state["owner"][claim].astype(np.int64),
        announced=state["capacity"][loads.owner[of_group]],
        speed=loads.speed[of_group],
    )


def _lag_is_long(loads: _Loads, factor: float) -> Mask:
    """Whether the lag of a member is long, by group; `factor`: of the lag."""
    long = loads.lag * factor >= LONG_LAG_SECONDS * loads.capacity
    is_long: Mask = np.logical_or.reduceat(long, loads.first) & (loads.arrivals > 0)
    return is_long


def _waiting(state: BucketState, groups: Int64, loads: _Loads) -> Mask:
    """Whether records have shown to wait, by their age or by commits, by group."""
    entries = state["entries"][groups].astype(np.int64)
    oldest = np.zeros(groups.size)  # a group may have owners and no lag yet
    entry = ranges(state.first_entry[groups], entries)
    reads = state.claim[state["owner_text"][entry]] != Claim.NONE
    seconds = np.where(reads, state["seconds"][entry], 0.0)
    np.maximum.at(oldest, np.repeat(np.arange(groups.size), entries), seconds)
    is_open = state["speed_since"][loads.owner] != UNKNOWN
    waiting: Mask = (oldest >= WAITING_SECONDS) | np.logical_or.reduceat(is_open, loads.first)
    return waiting
