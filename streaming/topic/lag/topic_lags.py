"""The lag of groups in several topics, as of one state of each.

Matrices have a row for each topic and group, and a column for each partition; the topics have the
same number of partitions. Values that are a topic's, and not a group's, are matrices as well, which
fit the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levelwind.streaming.rules.arrival_rate import arrival_rate
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.partition_lag import Lag, lag_of
from levelwind.streaming.topic.end_history import EndOffsetHistory
from levelwind.streaming.topic.lag.commit_cells import CommitCells, RequestRows
from levelwind.streaming.topic.state import BASELINES, sampled_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.streaming.rules.event_time import Floats, Int64, Mask
    from levelwind.streaming.topic.lag.commit_cells import LagRequest
    from levelwind.streaming.topic.state import LagRule, TopicState


class SharedHistories(NamedTuple):
    """The histories of some topics, of which those with the same times are one."""

    of_topics: Sequence[EndOffsetHistory]
    """The history of each topic."""
    histories: list[EndOffsetHistory]
    topics: list[list[int]]
    """The topics of each of these."""
    shared: Int64
    """By topic, the index of its history in `histories`."""
    first: Int64
    """By topic, the column of its first partition there."""

    @classmethod
    def of(cls, histories: Sequence[EndOffsetHistory]) -> SharedHistories:
        """The histories of topics with as many partitions."""
        alike: dict[bytes, list[int]] = {}
        for index, history in enumerate(histories):
            alike.setdefault(history.at.tobytes(), []).append(index)
        shared, first = np.empty((2, len(histories)), np.int64)
        for number, indices in enumerate(alike.values()):
            shared[indices] = number
            first[indices] = np.arange(len(indices)) * histories[indices[0]].end.shape[1]
        topics = list(alike.values())
        return cls(
            of_topics=histories,
            histories=[
                EndOffsetHistory.joined([histories[i] for i in indices]) for indices in topics
            ],
            topics=topics,
            shared=shared,
            first=first,
        )


class ArrivalRates:
    """The arrival rates of topics, computed once for each history of ends."""

    def __init__(self) -> None:
        self._known: dict[int, Floats] = {}

    def of(self, shared: SharedHistories) -> Floats:
        """The records that usually arrive per second, by topic and partition; NaN: not known."""
        # Identities, since a request keeps its history for as long as this is used.
        keys = list(map(id, shared.of_topics))
        for history, topics in zip(shared.histories, shared.topics, strict=True):
            if not all(keys[topic] in self._known for topic in topics):
                rates = arrival_rate(history.at, history.end).reshape(len(topics), -1)
                self._known.update(zip([keys[topic] for topic in topics], rates, strict=True))
        return np.concatenate([self._known[key] for key in keys]).reshape(len(keys), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """The lag of some requests' groups with the commits that their states count."""

    rows: RequestRows
    cells: CommitCells
    committed: Int64
    """The committed offsets; `UNKNOWN`: no commit."""
    committed_at: Int64
    """The times of the commits; `UNKNOWN`: no commit."""
    begin: Int64
    """The begins of the logs, as a matrix that fits the rows."""
    lag: Lag
    seconds: Floats
    """The age of the next record to read, in seconds; NaN: the partition's end is not known."""
    lower_bound: Mask
    """Whether `seconds` is only a lower bound of that age."""
    present_at: Int64
    """The time of the first sample that shows the next record to read, where there is lag."""
    rate: Floats
    """By request, the records that usually arrive per second in each partition; NaN: not known."""
    newest_source: Int64
    """The partition of the offsets topic that holds each group's newest commit; `UNKNOWN`: the
    group has no commit."""
    newest_position: Int64
    """The offset of that commit; `UNKNOWN`: there is none."""

    @classmethod
    def of(cls, requests: Sequence[LagRequest], rule: LagRule, rates: ArrivalRates) -> Lags:
        """The lag of some requests, at least one, in topics with as many partitions.

        A request of a topic with gaps comes alone.
        """
        rows = RequestRows.of(requests)
        cells = CommitCells.of(rows, [request.state.commits for request in requests])
        offset = cells.column("offset")
        committed = cells.fill(offset)
        begin = rows.by_partition(lambda state: state.begin)
        end = rows.by_partition(lambda state: sampled_end(state, rule))
        stable = rule.end_kind == "stable"
        lag = lag_of(
            committed=committed,
            begin=begin,
            end=end,
            reset=rule.at_end([group for request in requests for group in request.groups])
            if rule.group_resets
            else rule.reset,
            data_end=rows.by_partition(lambda state: state.data_end) if stable else None,
            log_end=_log_end(rows, cells, committed),
            gaps=requests[0].state.gaps if stable and len(requests) == 1 else (),
        )
        from_begin = (committed == UNKNOWN) | lag.out_of_range
        following = np.where(from_begin, begin, np.maximum(committed, begin))
        histories = SharedHistories.of([request.state.history for request in requests])
        seconds, present_at, lower_bound = _seconds(rows, histories, following, lag.lag > 0)
        source, position = _newest_commits(cells)
        return cls(
            rows=rows,
            cells=cells,
            committed=committed,
            committed_at=cells.fill(cells.column("at")),
            begin=begin,
            lag=lag,
            seconds=np.where(end < 0, np.nan, seconds),
            lower_bound=lower_bound,
            present_at=present_at,
            rate=rates.of(histories),
            newest_source=source,
            newest_position=position,
        )

    def velocity(self, cells: CommitCells, sampled: Sequence[TopicState]) -> Floats:
        """The offsets a second that each group commits in each partition; NaN: not known.

        Args:
            cells: those of the commits that the last samples count.
            sampled: by request, the state that counts these alone.
        """
        seconds = np.array([[_measured_seconds(state)] for state in sampled])
        offset, before = cells.column("offset"), cells.column("old_baseline")
        young = [len(state.baselines) < BASELINES for state in sampled]
        if any(young):
            sizes = [state.commits.code.size for state in sampled]
            before = np.where(np.repeat(young, sizes), cells.column("new_baseline"), before)
        committed, before = cells.fill(offset), cells.fill(before)
        measured = self.rows.by_row(seconds)
        known = (committed != UNKNOWN) & (before != UNKNOWN) & ~np.isnan(measured)
        velocity: Floats = np.where(known, np.maximum(committed - before, 0) / measured, np.nan)
        return velocity.round(2)


def _measured_seconds(state: TopicState) -> float:
    """The time from a topic's older baseline to its last sample; NaN: there is none."""
    if not state.baselines or state.baselines[0].at >= state.at:
        return np.nan
    return (state.at - state.baselines[0].at) / 1000


def _log_end(rows: RequestRows, cells: CommitCells, committed: Int64) -> Int64 | None:
    """By commit, a high watermark that was read after the commit was made; None: no such commit.

    The commits that an exact sample counts were made before the ends of that sample were read. So a
    commit beyond such an end is out of range: no record of its offset was there.
    """
    high = rows.by_partition(lambda state: state.high)
    if not (committed > high).any():
        return None
    exact = rows.numbers(lambda state: state.exact_cut).astype(np.bool_)
    end_read = rows.by_partition(lambda state: state.end_read_at)
    counted = cells.fill(cells.column("sampled")) == committed
    read_then = end_read == rows.numbers(lambda state: state.at)
    return np.where(counted & exact & read_then, high, UNKNOWN)


def _seconds(
    rows: RequestRows, shared: SharedHistories, following: Int64, behind: Mask
) -> tuple[Floats, Int64, Mask]:
    """The ages of the next records to read, in seconds, and whether each is a lower bound.

    Between the two are the first samples that show these records. All are computed where there is
    lag, and 0 or `UNKNOWN` elsewhere.
    """
    seconds = np.zeros(rows.shape)
    present_at = np.full(rows.shape, UNKNOWN, np.int64)
    lower_bound = np.zeros(rows.shape, np.bool_)
    cell = np.flatnonzero(behind)
    if not cell.size:
        return seconds, present_at, lower_bound
    request = rows.request[cell // rows.partitions]
    at = np.array([request.state.at for request in rows.requests], np.int64)
    of_history = shared.shared[request]
    order = np.argsort(of_history, kind="stable")
    bounds = np.searchsorted(of_history[order], np.arange(len(shared.histories) + 1)).tolist()
    for history, (first, last) in zip(shared.histories, pairwise(bounds), strict=True):
        some = order[first:last]
        of_topics, cells = request[some], cell[some]
        arrived, present, unbounded = history.arrived(
            following.reshape(-1)[cells], shared.first[of_topics] + cells % rows.partitions
        )
        seconds.reshape(-1)[cells] = np.round((at[of_topics] - arrived) / 1000, 1)
        present_at.reshape(-1)[cells] = present
        lower_bound.reshape(-1)[cells] = unbounded
    return seconds, present_at, lower_bound


def _newest_commits(cells: CommitCells) -> tuple[Int64, Int64]:
    """The partition of the offsets topic, and the offset there, of each row's newest commit."""
    rows = cells.shape[0]
    source = np.full(rows + 1, UNKNOWN, np.int64)
    newest = np.full(rows + 1, UNKNOWN, np.int64)
    position = cells.column("position")
    if position.size:
        # Sorted by topic and group, so that the entries of a row lie together.
        first = np.flatnonzero(np.diff(cells.row, prepend=UNKNOWN - 1))
        count = np.diff(first, append=position.size)
        last = np.maximum.reduceat(position, first)
        entry = np.flatnonzero(position == np.repeat(last, count))
        # The last row stands for groups that are not asked for.
        newest[cells.row[first]] = last
        source[cells.row[entry]] = cells.column("source")[entry]
    return source[:-1], newest[:-1]
