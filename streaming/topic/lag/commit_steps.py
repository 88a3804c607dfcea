"""Commits of groups between two samples of a topic: how far they went, and what they left behind.

A commit is *behind* if the record after it had been waiting for `BEHIND_MS` at the sample before
the commit. Both is known by positions in the logs alone, so no two clocks are compared. Samples
without an exact cut show no steps: which commits they count depends on the batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from levelwind.assignors.problem.drain import is_beyond_pace, waiting_records
from levelwind.streaming.rules.event_time import UNKNOWN, Floats, Int64
from levelwind.streaming.rules.speed import BEHIND_MS
from levelwind.streaming.topic.lag.commit_cells import LagRequest, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.streaming.topic.lag.topic_lags import Lags


class SampleRequest(Struct, frozen=True, kw_only=True, eq=False):
    """The lag of a topic's groups at one sample, and their steps before it, that are asked for."""

    lag: LagRequest
    """The groups, and the topic's state after the sample."""
    sampled: Int64
    """By entry of the commits, the offset that the sample before counted; see `CommitTable`."""
    previous_at: int
    """The time of the sample before; `UNKNOWN`: there was none with an exact cut."""

    @property
    def has_steps(self) -> bool:
        """Whether steps can be known, and some group has committed."""
        state = self.lag.state
        exact = state.exact_cut and self.previous_at != UNKNOWN
        return exact and self.sampled is not state.commits.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSteps:
    """Steps of the groups that have committed something since the sample before."""

    row: Int64
    """The rows of these groups in the matrix of lag, ascending."""
    advance: Int64
    """A matrix, groups by partitions: offsets by which the commits advanced."""
    behind_at: Int64
    """A matrix: times of the newest commits that were behind; `UNKNOWN`: none was."""

    @classmethod
    def none(cls, partitions: int) -> CommitSteps:
        """No step at all."""
        empty = np.zeros((0, partitions), np.int64)
        return cls(row=np.zeros(0, np.int64), advance=empty, behind_at=empty)


def commit_steps(lags: Lags, samples: Sequence[SampleRequest]) -> CommitSteps:
    """The groups' steps up to the last sample of each of some topics.

    Args:
        lags: the groups' lag.
        samples: what is asked for in `lags`.
    """
    rows, cells = lags.rows, lags.cells
    exact = [sample.has_steps for sample in samples]
    if not any(exact):
        return CommitSteps.none(rows.partitions)
    before = joined([sample.sampled for sample in samples])[cells.entry]
    offset = cells.column("offset")[cells.entry]
    row_of_cell, partition = np.divmod(cells.cell, max(rows.partitions, 1))
    begin = np.broadcast_to(lags.begin, rows.shape)[row_of_cell, partition]
    # What the log lost before it was read was passed over, and not consumed.
    step = offset - np.where(offset > begin, np.maximum(before, begin), before)
    moved = (before != UNKNOWN) & (step > 0)
    if not all(exact):
        moved &= np.array(exact)[rows.request[row_of_cell]]
    if not moved.any():
        return CommitSteps.none(rows.partitions)
    of_step = row_of_cell[moved]
    has_step = np.zeros(rows.request.size, np.bool_)
    has_step[of_step] = True
    row = np.flatnonzero(has_step)
    advance = np.zeros((row.size, rows.partitions), np.int64)
    index = np.cumsum(has_step) - 1
    advance[index[of_step], partition[moved]] = step[moved]
    latest = np.array([sample.previous_at - BEHIND_MS for sample in samples], np.int64)
    waited = lags.present_at[row] <= latest[rows.request[row], None]
    behind = (advance > 0) & (lags.lag.lag[row] > 0) & waited
    return CommitSteps(
        row=row, advance=advance, behind_at=np.where(behind, lags.committed_at[row], UNKNOWN)
    )


class WaitingLag(NamedTuple):
    """What waits for the groups, beyond what readers that keep pace have yet to commit."""

    records: Int64
    """A matrix, groups by partitions: see `waiting_records`."""
    seconds: Floats
    """By group, the age of its oldest unread record in a partition with such lag; 0: there is none.
    """


def waiting(lags: Lags) -> WaitingLag:
    """What waits for the groups."""
    age = lags.rows.numbers(lambda state: state.at) - lags.committed_at
    age = np.where(lags.committed_at == UNKNOWN, 0, age)
    records = waiting_records(lags.lag.lag, lags.rows.by_row(lags.rate), age)
    beyond = is_beyond_pace(lags.lag.lag, records, age)
    seconds = np.where(beyond, np.nan_to_num(lags.seconds), 0.0).max(axis=1, initial=0.0)
    return WaitingLag(records, seconds)
