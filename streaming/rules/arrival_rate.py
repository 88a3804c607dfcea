"""Records that usually arrive in a topic, from the end offsets of its samples.

The last `RATE_MS` are cut into intervals of at least `INTERVAL_MS`, and the rate of a partition is
the mean over them. An interval counts at most `BURST` times the median interval: what arrives all
at once is a backlog, which lag shows, and no rate at which more will arrive. Where the rate has
changed in this time, only the time since then counts, in the intervals of its samples:
`rate_changes` has the test. The time before the first record of a partition does not count, so that
what is new has its rate at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from levelwind.streaming.rules.rate_changes import (
    NO_CHANGE,
    column_sums,
    rate_changes,
    time_quantile,
)

if TYPE_CHECKING:
    from levelwind.streaming.rules.event_time import Floats, Int64

RATE_MS = 60_000
INTERVAL_MS = 5_000
BURST = 3.0
"""Rate of an interval that counts, over the median."""
SINGLE_RECORDS = 1.0
"""Records a second that an interval may have beyond that: the median of a quiet partition is 0."""


def arrival_rate(at: Int64, end: Int64) -> Floats:
    """Records that arrive per second, by partition; NaN where there is nothing to compare with.

    Args:
        at: times of samples, oldest first.
        end: their end offsets, samples by partitions; negative: not known.
    """
    if not at.size:
        return np.full(end.shape[1], np.nan)
    points = interval_bounds(at)
    rate = usual_rate(at[points], end[points])
    changed = rate_changes(at, end, int(at[-1]) - RATE_MS)
    for point in np.unique(changed[changed != NO_CHANGE]).tolist():
        columns = np.flatnonzero(changed == point)
        rate[columns] = usual_rate(at[point:], end[point:, columns])
    return rate


def usual_rate(times: Int64, ends: Int64) -> Floats:
    """Return the mean of the rates of intervals, of which each counts `BURST` medians at most.

    Args:
        times: times of the points that bound the intervals, oldest first.
        ends: their end offsets, points by partitions; negative: not known.
    """
    length = np.diff(times) / 1000.0
    known = (ends[:-1] >= 0) & (ends[1:] >= 0)
    begun = known & (ends[:-1] > 0)
    known = np.where(begun.any(axis=0), begun, known)
    seconds = np.where(known, length[:, None], 0.0)
    if not seconds.any():
        return np.full(ends.shape[1], np.nan)
    records = np.maximum(np.diff(ends, axis=0), 0)
    rates = np.where(known, records / length[:, None], 0.0)
    median = time_quantile(rates, seconds, 0.5)
    usual = np.minimum(rates, BURST * median + SINGLE_RECORDS)
    total = column_sums(seconds)
    rate = np.full(total.size, np.nan)
    np.divide(column_sums(usual * seconds), total, out=rate, where=total > 0)
    return rate.round(2)


def interval_bounds(at: Int64) -> Int64:
    """The points that bound the intervals, oldest first; of few points the oldest and the newest.

    Args:
        at: times of the points, oldest first.
    """
    chosen = [at.size - 1]
    for point in range(at.size - 2, -1, -1):
        if at[-1] - at[point] > RATE_MS and len(chosen) > 1:
            break
        if at[chosen[-1]] - at[point] >= INTERVAL_MS:
            chosen.append(point)
    if len(chosen) == 1 and at.size > 1:
        chosen.append(0)
    return np.array(chosen[::-1], np.int64)
