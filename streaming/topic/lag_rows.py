"""Lag of a topic's groups, many at once: pure functions of the topic's state.

Matrices have a row for each group and a column for each partition.

Cost: a few dozen calls of NumPy whatever the number of groups, and for each group what it takes to
write its row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streaming.decoding.offsets_topic import TOPIC as OFFSETS_TOPIC
from streaming.messages import lag_json
from streaming.messages.rows import LagRow, LagSample
from streaming.rules.event_time import UNKNOWN
from streaming.rules.partition_lag import Lag, lag_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streaming.rules.event_time import Floats, Int64, Mask
    from streaming.topic.state import LagRule, TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The cells of a matrix, groups by partitions, that entries of the topic's commits fill."""

    shape: tuple[int, int]
    entry: Int64
    """The entries of the commits that have a cell in the matrix."""
    cell: Int64
    """The cell of each of these entries, counted row after row."""

    @classmethod
    def of(cls, state: TopicState, numbers: Int64) -> Cells:
        """The cells of some groups, given by their numbers, ascending."""
        commits = state.commits
        partitions = state.stable.size
        group, partition = commits.group, commits.partition
        fits = (partition < partitions) & commits.of_topic(state.id)
        if numbers.size == len(commits.groups):
            row = group
        else:
            row = np.minimum(np.searchsorted(numbers, group), numbers.size - 1)
            fits &= numbers[row] == group
        entry = np.flatnonzero(fits)
        return cls(
            shape=(numbers.size, partitions),
            entry=entry,
            cell=row[entry] * partitions + partition[entry],
        )

    def fill(self, column: Int64) -> Int64:
        """A column of the commits as a matrix, `UNKNOWN` where there is no commit."""
        matrix = np.full(self.shape, UNKNOWN, np.int64)
        matrix.reshape(-1)[self.cell] = column[self.entry]
        return matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """The lag of some groups with the commits that a state counts."""

    state: TopicState
    numbers: list[int]
    """The number of each row's group."""
    cells: Cells
    committed: Int64
    """The committed offsets; `UNKNOWN`: no commit."""
    committed_at: Int64
    """The times of the commits; `UNKNOWN`: no commit."""
    lag: Lag
    seconds: Floats
    """The age of the next record to read, in seconds; NaN: the partition's end is not known."""
    lower_bound: Mask
    """Whether `seconds` is only a lower bound of that age."""
    source: list[dict[str, int]]
    """For each row, by "topic/partition" of the input, the offset up to which it was read."""

    @classmethod
    def of(cls, state: TopicState, rule: LagRule, numbers: Sequence[int]) -> Lags:
        """The lag of some groups, given by their numbers, ascending; at least one."""
        groups = np.array(numbers, np.int64)
        cells = Cells.of(state, groups)
        committed = cells.fill(state.commits.offset)
        lag = lag_of(
            committed=committed,
            begin=state.begin,
            end=sampled_end(state, rule),
            reset=rule.reset,
            data_end=state.data_end if rule.end_kind == "stable" else None,
        )
        seconds, lower_bound = _seconds(state, rule, committed, lag.lag)
        return cls(
            state=state,
            numbers=list(numbers),
            cells=cells,
            committed=committed,
            committed_at=cells.fill(state.commits.at),
            lag=lag,
            seconds=seconds,
            lower_bound=lower_bound,
            source=_sources(state, groups),
        )

    def reused_for(self, state: TopicState, numbers: Sequence[int]) -> Lags | None:
        """These lags as of a later state, None if they are not valid for it.

        They are valid for the same groups while no commit and no sample has come in between.
        """
        before = self.state
        same = (
            before.commits is state.commits
            and before.history is state.history
            and before.id == state.id
        )
        return replace(self, state=state) if same and self.numbers == list(numbers) else None


def lag_samples(topic: str, lags: Lags) -> Iterator[tuple[int, LagSample]]:
    """The number of each group, and its lag at the state's sample: the input of the skew rule."""
    longest = np.nan_to_num(lags.seconds).max(axis=1, initial=0.0).tolist()
    committed_at = lags.committed_at.max(axis=1, initial=UNKNOWN).tolist()
    for row, number in enumerate(lags.numbers):
        sample = LagSample(
            topic=topic,
            at=lags.state.at,
            lag=lags.lag.lag[row],
            seconds=longest[row],
            committed_at=committed_at[row],
            source=lags.source[row],
        )
        yield number, sample


def lag_rows(
    topic: str, lags: Lags, sampled: TopicState, rule: LagRule
) -> Iterator[tuple[int, LagRow]]:
    """The number of each group, and its lag as it is published.

    Args:
        topic: the topic's name.
        lags: the lag with all commits that were read.
        sampled: the state that counts the commits of the last sample alone: velocities are as of
            then.
        rule: the settings of lag.
    """
    state, groups = lags.state, np.array(lags.numbers, np.int64)
    cells = lags.cells if sampled.commits is state.commits else Cells.of(sampled, groups)
    rate, velocity = _speeds(sampled, rule, cells)
    shared = _shared_fields(state, sampled, rule, rate)
    own = _own_columns(lags, velocity)
    newest = lags.committed_at.max(axis=1, initial=UNKNOWN).tolist()
    for row, number in enumerate(lags.numbers):
        fields = [
            lag_json.field(name, value)
            for name, column in own.items()
            if (value := column[row]) is not None
        ]
        lag_row = LagRow(
            topic=topic,
            at=state.at,
            partitions=state.stable.size,
            committed=newest[row] != UNKNOWN,
            committed_at=newest[row],
            fields=(*shared, *fields),
        )
        yield number, lag_row


def _shared_fields(
    state: TopicState, sampled: TopicState, rule: LagRule, rate: Floats
) -> list[str]:
    """The fields of a lag record that are the same for all groups, as JSON."""
    (rates,) = lag_json.decimals(rate[None, :])
    end_read_earlier = bool((state.end_read_at != state.at).any())
    values: dict[str, str | None] = {
        "at": str(state.at),
        "begin": lag_json.column(state.begin),
        "data_end": lag_json.column(state.data_end) if (state.data_end >= 0).any() else None,
        "end": lag_json.column(sampled_end(state, rule)),
        "end_kind": lag_json.text(rule.end_kind),
        "end_read_at": lag_json.column(state.end_read_at) if end_read_earlier else None,
        "id": lag_json.text(state.id),
        "racks": lag_json.text((sampled.racks + ((),) * state.stable.size)[: state.stable.size]),
        "rate": rates,
    }
    return [lag_json.field(name, value) for name, value in values.items() if value is not None]


def _own_columns(lags: Lags, velocity: Floats) -> dict[str, Sequence[str | None]]:
    """The fields of a lag record that differ between groups: by name, the JSON for each row.

    A group for which the JSON is None has no such field.
    """
    lower_bounds = lag_json.set_indices(lags.lower_bound)
    return {
        "seconds_lower_bound": [None if text == "[]" else text for text in lower_bounds],
        "committed": lag_json.integers(lags.committed),
        "committed_at": lag_json.integers(lags.committed_at),
        "lag": lag_json.integers(lags.lag.lag),
        "lost": lag_json.integers(lags.lag.lost),
        "seconds": lag_json.decimals(lags.seconds),
        "source": [lag_json.text(source) for source in lags.source],
        "stale": lag_json.set_indices(lags.lag.stale),
        "velocity": lag_json.decimals(velocity),
    }


def sampled_end(state: TopicState, rule: LagRule) -> Int64:
    """The end of each partition at the last sample, of the kind that the rule chooses."""
    return state.stable if rule.end_kind == "stable" else state.high


def _seconds(state: TopicState, rule: LagRule, committed: Int64, lag: Int64) -> tuple[Floats, Mask]:
    following = np.where(committed == UNKNOWN, state.begin, np.maximum(committed, state.begin))
    arrived, unbounded = state.history.arrived(following)
    behind = lag > 0
    seconds = np.where(behind, np.round((state.at - arrived) / 1000, 1), 0.0)
    return np.where(sampled_end(state, rule) < 0, np.nan, seconds), unbounded & behind


def _speeds(state: TopicState, rule: LagRule, cells: Cells) -> tuple[Floats, Floats]:
    """The rate of each partition, and the velocity of each group there; NaN: not known.

    The rate is in records a second that arrive, the velocity in offsets a second that are
    committed.
    """
    end = sampled_end(state, rule)
    if not state.baselines or state.baselines[0].at >= state.at:
        return np.full(end.size, np.nan), np.full(cells.shape, np.nan)
    baseline = state.baselines[0]
    seconds = (state.at - baseline.at) / 1000
    then = np.full(end.size, UNKNOWN, np.int64)
    then[: baseline.end.size] = baseline.end[: end.size]
    rate: Floats = np.where((then < 0) | (end < 0), np.nan, np.maximum(end - then, 0) / seconds)
    commits = state.commits
    committed = cells.fill(commits.offset)
    before = cells.fill(commits.old_baseline if len(state.baselines) == 2 else commits.new_baseline)
    known = (committed != UNKNOWN) & (before != UNKNOWN)
    velocity: Floats = np.where(known, np.maximum(committed - before, 0) / seconds, np.nan)
    return rate.round(2), velocity.round(2)


def _sources(state: TopicState, numbers: Int64) -> list[dict[str, int]]:
    """For each group, the positions of its newest commit and of the sample."""
    commits = state.commits
    sample = dict([state.sample_position] if state.sample_position else [])
    first, last = np.searchsorted(commits.group, [numbers, numbers + 1])
    newest = np.lexsort((commits.position, commits.group))  # of each group's entries the last
    sources = [sample] * numbers.size
    for row in np.flatnonzero(first < last).tolist():
        entry = newest[last[row] - 1]
        sources[row] = {
            f"{OFFSETS_TOPIC}/{commits.source[entry]}": int(commits.position[entry]),
            **sample,
        }
    return sources
