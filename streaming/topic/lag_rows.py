"""Lag of a topic's groups, many at once: pure functions of the topic's state.

Matrices have a row for each group and a column for each partition. The rows that leave are one for
each bucket of groups.

Cost: a few dozen calls of NumPy whatever the number of groups, and for each group what it takes to
write its fields.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignors.protocol.records import LagRecord
from streaming.decoding.offsets_topic import TOPIC as OFFSETS_TOPIC
from streaming.messages import lag_json
from streaming.messages.lag_columns import LagRows, LagSamples, scaled_rate
from streaming.messages.lag_json import OwnFields, SharedFields
from streaming.messages.rows import Kind, Row, group_key
from streaming.rules.arrival_rate import arrival_rate
from streaming.rules.event_time import UNKNOWN
from streaming.rules.partition_lag import Lag, lag_of
from streaming.topic.commit_steps import GroupCells, commit_steps, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    present_at: Int64
    """The time of the first sample that shows the next record to read, where there is one."""
    rate: Floats
    """The records that usually arrive per second, by partition; NaN: not known."""
    newest: Int64
    """The entry of each group's newest commit; -1: it has no commit."""

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
            reset=rule.at_end([state.commits.groups[number] for number in numbers])
            if rule.group_resets
            else rule.reset,
            data_end=state.data_end if rule.end_kind == "stable" else None,
            log_end=_log_end(state, cells, committed),
            gaps=state.gaps if rule.end_kind == "stable" else (),
        )
        seconds, present_at, lower_bound = _seconds(state, rule, committed, lag)
        return cls(
            state=state,
            numbers=list(numbers),
            cells=cells,
            committed=committed,
            committed_at=cells.fill(state.commits.at),
            lag=lag,
            seconds=seconds,
            lower_bound=lower_bound,
            present_at=present_at,
            rate=arrival_rate(state.history.at, state.history.end),
            newest=_newest_entries(state, groups),
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


def lag_samples(
    topic: str, lags: Lags, names: Mapping[int, str], sampled: Int64, previous_at: int
) -> Iterator[Row]:
    """The groups' lag at the state's sample: the input of the skew rule.

    Args:
        topic: the topic's name.
        lags: the groups' lag.
        names: the groups' names by number.
        sampled: see `commit_steps`.
        previous_at: see `commit_steps`.
    """
    state = lags.state
    cells = GroupCells(
        entry=lags.cells.entry,
        cell=lags.cells.cell,
        lag=lags.lag.lag,
        committed_at=lags.committed_at,
        present_at=lags.present_at,
    )
    records, steps = (
        waiting(cells, state.at, lags.rate),
        commit_steps(state, cells, sampled, previous_at),
    )
    step_of_row = np.full(len(lags.numbers), UNKNOWN, np.int64)
    step_of_row[steps.row] = np.arange(steps.row.size)
    rate = scaled_rate(lags.rate)
    longest = np.nan_to_num(lags.seconds).max(axis=1, initial=0.0)
    committed_at = lags.committed_at.max(axis=1, initial=UNKNOWN)
    logs, log, position = _newest_commits(lags)
    for state_key, rows, groups in _by_bucket(lags.numbers, names):
        stepped = np.flatnonzero(step_of_row[rows] >= 0)
        step = step_of_row[rows][stepped]
        samples = LagSamples(
            topic=topic,
            at=state.at,
            groups=groups,
            lag=records[rows],
            rate=rate,
            stepped=stepped,
            advance=steps.advance[step],
            behind_at=steps.behind_at[step],
            seconds=longest[rows],
            committed_at=committed_at[rows],
            commit_logs=logs,
            commit_log=log[rows],
            commit_position=position[rows],
            position=state.sample_position,
        )
        yield Row(state_key, "", Kind.LAG_SAMPLES, samples.pack())


def lag_rows(
    topic: str, lags: Lags, names: Mapping[int, str], sampled: TopicState, rule: LagRule
) -> Iterator[Row]:
    """The groups' lag as it is published.

    Args:
        topic: the topic's name.
        lags: the lag with all commits that were read.
        names: the groups' names by number.
        sampled: the state that counts the commits of the last sample alone: velocities are as of
            then.
        rule: the settings of lag.
    """
    state, numbers = lags.state, np.array(lags.numbers, np.int64)
    cells = lags.cells if sampled.commits is state.commits else Cells.of(sampled, numbers)
    velocity = _velocity(sampled, cells)
    shared = _shared_fields(state, sampled, rule, lags.rate)
    own = _own_fields(lags, velocity)
    committed_at = lags.committed_at.max(axis=1, initial=UNKNOWN)
    for state_key, rows, groups in _by_bucket(lags.numbers, names):
        lag = LagRows(
            topic=topic,
            at=state.at,
            partitions=state.stable.size,
            groups=groups,
            committed_at=committed_at[rows],
            shared=shared,
            own=[own[row] for row in rows],
        )
        yield Row(state_key, "", Kind.LAGS, lag.pack())


def _by_bucket(
    numbers: Sequence[int], names: Mapping[int, str]
) -> Iterator[tuple[str, list[int], tuple[str, ...]]]:
    """The state key of each bucket, with the rows of its groups and their names."""
    rows_by_key: dict[str, list[int]] = {}
    groups = [names[number] for number in numbers]
    for row, group in enumerate(groups):
        rows_by_key.setdefault(group_key(group), []).append(row)
    for state_key, rows in rows_by_key.items():
        yield state_key, rows, tuple([groups[row] for row in rows])


def _shared_fields(
    state: TopicState, sampled: TopicState, rule: LagRule, rate: Floats
) -> SharedFields:
    """The fields of a lag record that are the same for all groups, as JSON."""
    (rates,) = lag_json.decimals(rate[None, :])
    end_read_earlier = bool((state.end_read_at != state.at).any())
    data_end = lag_json.column(state.data_end) if (state.data_end >= 0).any() else None
    racks = lag_json.text((sampled.racks + ((),) * state.stable.size)[: state.stable.size])
    return SharedFields(
        before_committed=lag_json.fields(
            ("at", str(state.at)), ("begin", lag_json.column(state.begin))
        ),
        before_lag=lag_json.fields(
            ("data_end", data_end),
            ("end", lag_json.column(sampled_end(state, rule))),
            ("end_kind", lag_json.text(rule.end_kind)),
            ("end_read_at", lag_json.column(state.end_read_at) if end_read_earlier else None),
            ("id", lag_json.text(state.id)),
        ),
        before_seconds=lag_json.fields(("racks", racks), ("rate", rates)),
        before_velocity=lag_json.fields(("v", str(LagRecord.V))),
        racks=racks,
    )


def _own_fields(lags: Lags, velocity: Floats) -> list[OwnFields]:
    """The fields of a lag record that differ between groups, as JSON, for each row."""
    columns = (
        lag_json.integers(lags.committed),
        lag_json.integers(lags.committed_at),
        lag_json.integers(lags.lag.lag),
        lag_json.set_indices(lags.lag.upper_bound),
        lag_json.integers(lags.lag.lost),
        lag_json.set_indices(lags.lag.out_of_range),
        lag_json.decimals(lags.seconds),
        lag_json.set_indices(lags.lower_bound),
        _sources(lags),
        lag_json.set_indices(lags.lag.stale),
        lag_json.decimals(velocity),
        lag_json.set_indices(lags.committed == UNKNOWN),
    )
    return [OwnFields.of(*texts) for texts in zip(*columns, strict=True)]


def sampled_end(state: TopicState, rule: LagRule) -> Int64:
    """The end of each partition at the last sample, of the kind that the rule chooses."""
    return state.stable if rule.end_kind == "stable" else state.high


def _log_end(state: TopicState, cells: Cells, committed: Int64) -> Int64 | None:
    """By commit, a high watermark that was read after the commit was made; None: no such commit.

    The commits that an exact sample counts were made before the ends of that sample were read. So a
    commit beyond such an end is out of range: no record of its offset was there.
    """
    if not state.exact_cut or not (committed > state.high).any():
        return None
    counted = cells.fill(state.commits.sampled) == committed
    return np.where(counted & (state.end_read_at == state.at), state.high, UNKNOWN)


def _seconds(
    state: TopicState, rule: LagRule, committed: Int64, found: Lag
) -> tuple[Floats, Int64, Mask]:
    from_begin = (committed == UNKNOWN) | found.out_of_range
    following = np.where(from_begin, state.begin, np.maximum(committed, state.begin))
    arrived, present_at, unbounded = state.history.arrived(following)
    behind = found.lag > 0
    seconds = np.where(behind, np.round((state.at - arrived) / 1000, 1), 0.0)
    seconds = np.where(sampled_end(state, rule) < 0, np.nan, seconds)
    return seconds, present_at, unbounded & behind


def _velocity(state: TopicState, cells: Cells) -> Floats:
    """The offsets a second that each group commits in each partition; NaN: not known."""
    if not state.baselines or state.baselines[0].at >= state.at:
        return np.full(cells.shape, np.nan)
    seconds = (state.at - state.baselines[0].at) / 1000
    commits = state.commits
    committed = cells.fill(commits.offset)
    before = cells.fill(commits.old_baseline if len(state.baselines) == 2 else commits.new_baseline)
    known = (committed != UNKNOWN) & (before != UNKNOWN)
    velocity: Floats = np.where(known, np.maximum(committed - before, 0) / seconds, np.nan)
    return velocity.round(2)


def _newest_entries(state: TopicState, numbers: Int64) -> Int64:
    """For each group, the entry of its newest commit; -1: it has none."""
    commits = state.commits
    newest = np.full(numbers.size + 1, UNKNOWN, np.int64)
    if commits.position.size:
        group = commits.group
        first = np.flatnonzero(np.diff(group, prepend=UNKNOWN))  # sorted: each group's first entry
        count = np.diff(first, append=group.size)
        last = np.repeat(np.maximum.reduceat(commits.position, first), count)
        entry = np.flatnonzero(commits.position == last)
        row = np.searchsorted(numbers, group[entry])
        asked = np.append(numbers, UNKNOWN)[row] == group[entry]
        newest[np.where(asked, row, -1)] = np.where(asked, entry, UNKNOWN)
    return newest[:-1]


def _newest_commits(lags: Lags) -> tuple[tuple[str, ...], Int64, Int64]:
    """The logs of the groups' newest commits, the log of each as an index, and its position."""
    commits = lags.state.commits
    if not commits.source.size:
        none = np.full(lags.newest.size, UNKNOWN, np.int64)
        return (), none, none
    committed = lags.newest != UNKNOWN
    sources, log = np.unique(commits.source[lags.newest], return_inverse=True)
    logs = tuple([f"{OFFSETS_TOPIC}/{source}" for source in sources.tolist()])
    position = commits.position[lags.newest]
    return logs, np.where(committed, log, UNKNOWN), np.where(committed, position, UNKNOWN)


def _sources(lags: Lags) -> list[str]:
    """For each group, the positions of its newest commit and of the sample, as JSON."""
    sample = dict([lags.state.sample_position] if lags.state.sample_position else [])
    logs, log, position = _newest_commits(lags)
    # One text for each log, with a gap for the position.
    around = [
        lag_json.text({**sample, name: UNKNOWN}).split(f"{lag_json.text(name)}:{UNKNOWN}")
        for name in logs
    ]
    named = [f"{lag_json.text(name)}:" for name in logs]
    no_commit = lag_json.text(sample)
    return [
        f"{around[index][0]}{named[index]}{offset}{around[index][1]}" if index >= 0 else no_commit
        for index, offset in zip(log.tolist(), position.tolist(), strict=True)
    ]
