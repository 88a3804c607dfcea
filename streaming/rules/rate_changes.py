"""Changes of the rates at which records arrive, found in the end offsets of a topic's samples.

The test compares two windows of a Poisson rate: the time since a sample, and `REFERENCE_MS` before
it. With Anscombe's square roots a count becomes a normal figure of known spread, and the difference
of the windows a number of standard deviations (M. D. Huffman, An Improved Approximate Two-Sample
Poisson Test, 1984). A change counts from `DEVIATIONS` on, if two things hold:

- It lasts: of the busier window only that rate counts which three quarters of its time exceed, so
  that it takes three samples that agree. What arrives all at once is no rate.
- It is more than noise. Batches of b records deviate as much as b times as few single ones, so that
  both counts are divided by a dispersion: that of the intervals of `DISPERSION_MS`, from their
  distances to the median of each and its neighbours, to which a step adds nothing, or from the
  differences of two neighbours that a third exceeds, whichever is more. Where most of the quieter
  window is silent, as between batches, it is at least the smallest number of records that an
  interval brought.

With a sample each second, steady arrivals of ten a second or more that change to a quarter or to
their fourfold are believed within 4 s; with rarer samples, after three or four of them, if 30 s
have one. Silence after steady arrivals, and arrivals in batches, have no rate
that could be known so soon. All figures are sums, quotients and square roots of whole numbers,
taken by partition in the order of time: the same on each machine.

Cost: points * partitions for the dispersion, and beyond that for what may have changed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from levelwind.streaming.rules.event_time import Floats, Int64, Mask

REFERENCE_MS = 30_000
"""Time before a change with which the time since then is compared, at most."""
DISPERSION_MS = 480_000
"""Time whose intervals say how much the arrivals of a partition vary."""
DEVIATIONS = 6.0
"""Standard deviations from which on two rates differ: thousands of partitions are tested at each
sample, and the dispersion is an estimate from few intervals."""
ROUNDING = 1e-6
"""Deviations by which sums and square roots may be off, and more."""
LEAST_MS = 3_000
"""Time since a change from which on it is believed."""
LEAST_INTERVALS = 3
"""Samples since a change from which on it is believed."""
LEAST_REFERENCE_MS = 10_000
LASTING_SHARE = 0.25
"""Share of a window's time in which its rate may be below the one that counts."""
SPREAD_SCALE = 2.0
"""Dispersion over the mean square distance from the median of three: 1.3 for normal figures, 1 for
rare batches, and more since few intervals may look too even."""
PAIRS_SHARE = 2 / 3
"""Share of the pairs of neighbours whose differences are noise: beyond it they may be steps."""
NO_CHANGE = -1


def rate_changes(at: Int64, end: Int64, since: int) -> Int64:
    """Return the point from which on each partition's rate counts; `NO_CHANGE`: there is none.

    That is the latest change: the largest one, and then the largest of those after it by what
    came since, until there is no more.

    Args:
        at: times of samples, oldest first.
        end: their end offsets, samples by partitions; negative: not known.
        since: time of the oldest change that is looked for.
    """
    windows = list(_windows(at, end, since))
    if not windows:
        return np.full(end.shape[1], NO_CHANGE)
    suspected = np.zeros(end.shape[1], bool)
    for window in windows:
        suspected[window.columns] = True
    suspects = np.flatnonzero(suspected)
    oldest = int(np.searchsorted(at, at[-1] - DISPERSION_MS))
    dispersion = np.ones((2, end.shape[1]))
    dispersion[:, suspects] = _dispersion(at[oldest:], end[oldest:, suspects])
    changed = _largest_changes(windows, at, end, dispersion)
    unsearched = [(point, np.flatnonzero(changed == point)) for point in _points(changed)]
    while unsearched:
        first, columns = unsearched.pop()
        times, ends = at[first:], end[first:, columns]
        later = _largest_changes(_windows(times, ends, since), times, ends, dispersion[:, columns])
        for point in _points(later):
            changed[columns[later == point]] = first + point
            unsearched.append((first + point, columns[later == point]))
    return changed


def _points(changed: Int64) -> list[int]:
    """The points at which some partition's rate changed."""
    points: list[int] = np.unique(changed[changed != NO_CHANGE]).tolist()
    return points


def _largest_changes(
    windows: Iterable[_Windows], at: Int64, end: Int64, dispersion: Floats
) -> Int64:
    """The point of the largest change of each partition that is believed; `NO_CHANGE`: none."""
    changed = np.full(end.shape[1], NO_CHANGE)
    largest = np.zeros(end.shape[1])
    for suspected in windows:
        columns = suspected.columns
        larger = suspected.deviations > largest[columns]
        window = suspected.of(larger & _exceeds_noise(suspected, at, dispersion[0, columns]))
        if window.columns.size:
            found = _believed(window, at, end, *dispersion[:, window.columns])
            changed[window.columns[found]] = window.point
            largest[window.columns[found]] = window.deviations[found]
    return changed


class _Windows(NamedTuple):
    """Two windows, and the partitions whose rates differ if nothing comes in batches."""

    start: int
    """The point that begins the first window."""
    point: int
    """The point that ends it and begins the second one, which lasts to the newest point."""
    columns: Int64
    """The partitions; they index what follows."""
    old: Floats
    """Records of the first window."""
    new: Floats
    """Records of the second one."""
    deviations: Floats
    """Standard deviations, without a sign, by which they differ."""

    def ratio(self, at: Int64) -> float:
        """Length of the second window over that of the first."""
        ratio: float = (at[-1] - at[self.point]) / (at[self.point] - at[self.start])
        return ratio

    def of(self, chosen: Mask) -> _Windows:
        """The windows of some of the partitions."""
        return self._replace(
            columns=self.columns[chosen],
            old=self.old[chosen],
            new=self.new[chosen],
            deviations=self.deviations[chosen],
        )


def _windows(at: Int64, end: Int64, since: int) -> Iterator[_Windows]:
    """The windows in which some partition's rates may differ, the latest change first."""
    newest = at.size - 1
    for point in range(newest - LEAST_INTERVALS, 0, -1):
        if at[point] < since:
            return
        start = int(np.searchsorted(at, at[point] - REFERENCE_MS))
        before, after = int(at[point] - at[start]), int(at[-1] - at[point])
        if after < LEAST_MS or before < LEAST_REFERENCE_MS:
            continue
        # The end of a partition without records says nothing of its rate.
        begun = end[start] > 0
        old = np.where(begun, end[point] - end[start], 0).astype(np.float64)
        new = np.where(begun, end[newest] - end[point], 0).astype(np.float64)
        deviations = np.abs(_deviations(old, new, after / before, 1.0))
        columns = np.flatnonzero(begun & (deviations >= DEVIATIONS))
        if columns.size:
            yield _Windows(start, point, columns, old[columns], new[columns], deviations[columns])


def _exceeds_noise(window: _Windows, at: Int64, spread: Floats) -> Mask:
    """Whether a change may be believed, before it is known how long its rates last.

    What does not last counts less, and a larger dispersion takes no rates further apart: with
    x = 1 / dispersion, the square roots' difference falls and then rises in x, and ends at less
    than one deviation for x = 0. So `_believed` is true of none but these.
    """
    deviations = _deviations(window.old, window.new, window.ratio(at), spread)
    exceeds: Mask = np.abs(deviations) >= DEVIATIONS - ROUNDING
    return exceeds


def _believed(window: _Windows, at: Int64, end: Int64, spread: Floats, granule: Floats) -> Mask:
    """Whether the change between two windows lasts and is more than noise, by its columns."""
    start, point, columns, old, new, _ = window
    lasting_old = _lasting(at[start : point + 1], end[start : point + 1, columns])
    lasting_new = _lasting(at[point:], end[point:, columns])
    ratio = window.ratio(at)
    rises = new > ratio * old
    steady = np.where(rises, 2 * lasting_old > old, 2 * lasting_new > new)
    deviations = _deviations(
        np.where(rises, old, np.minimum(lasting_old, old)),
        np.where(rises, np.minimum(lasting_new, new), new),
        ratio,
        np.where(steady, spread, np.maximum(spread, granule)),
    )
    believed: Mask = np.where(rises, deviations, -deviations) >= DEVIATIONS
    return believed


def _deviations(old: Floats, new: Floats, ratio: float, dispersion: Floats | float) -> Floats:
    """Standard deviations by which a count exceeds what a count before it says of its time.

    Args:
        old: records of the window before, by partition.
        new: records of the window since.
        ratio: length of the second window over that of the first.
        dispersion: variance of a count over its mean.
    """
    expected = np.sqrt(ratio * (old / dispersion + 0.375))
    deviations: Floats = 2 * (np.sqrt(new / dispersion + 0.375) - expected) / np.sqrt(1 + ratio)
    return deviations


def _lasting(at: Int64, end: Int64) -> Floats:
    """The records of a window if all its time had the rate that most of it exceeds."""
    seconds = np.diff(at) / 1000.0
    rates = np.maximum(np.diff(end, axis=0), 0) / seconds[:, None]
    lasting: Floats = time_quantile(rates, seconds[:, None], LASTING_SHARE) * seconds.sum()
    return lasting


def _dispersion(at: Int64, end: Int64) -> tuple[Floats, Floats]:
    """The variance of counts over their mean, at least 1, and the smallest count above 0."""
    known = end[:-1] >= 0
    records = np.where(known, np.maximum(np.diff(end, axis=0), 0), 0)
    seconds = np.diff(at)[:, None] / 1000.0
    rates = records / seconds
    total = np.maximum(column_sums(records), 1)
    left, middle, right = rates[:-2], rates[1:-1], rates[2:]
    median = np.maximum(np.minimum(left, middle), np.minimum(np.maximum(left, middle), right))
    squares = column_sums(((middle - median) * seconds[1:-1]) ** 2)
    pairs = (right - middle) ** 2 / (1 / seconds[1:-1] + 1 / seconds[2:])
    pairs.sort(axis=0)
    usual = pairs[int(PAIRS_SHARE * len(pairs))] * seconds.sum()
    spread = np.maximum(SPREAD_SCALE * squares, usual) / total
    granule = np.where(records > 0, records, np.iinfo(np.int64).max).min(axis=0)
    return np.maximum(spread, 1.0), granule.astype(np.float64)


def column_sums(values: Floats) -> Floats:
    """The sum of each column, added in order: NumPy's own sum of one column may add otherwise.

    So a partition has the same figures whichever others are computed with it.
    """
    sums: Floats = np.cumsum(values, axis=0)[-1]
    return sums


def time_quantile(rates: Floats, seconds: Floats, share: float) -> Floats:
    """The rate of each column that a share of its time does not exceed.

    Args:
        rates: by interval and partition.
        seconds: what each interval counts, by partition or of all.
        share: of the time, 0 to 1.
    """
    order = np.argsort(rates, axis=0, kind="stable")
    weight = np.cumsum(np.take_along_axis(np.broadcast_to(seconds, rates.shape), order, axis=0), 0)
    place = (weight >= weight[-1] * share).argmax(axis=0)
    columns = np.arange(rates.shape[1])
    quantile: Floats = rates[order[place, columns], columns]
    return quantile
