"""Commits of groups between two samples of a topic: how far they went, and what they left behind.

A commit is *behind* if the record after it had been waiting for `BEHIND_MS` at the sample before
the commit. Both is known by positions in the logs alone, so no two clocks are compared. Samples
without an exact cut show no steps: which commits they count depends on the batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streaming.rules.event_time import UNKNOWN
from streaming.rules.speed import BEHIND_MS

if TYPE_CHECKING:
    from streaming.rules.event_time import Floats, Int64
    from streaming.topic.state import TopicState

PACE_MS = 10_000
"""Longest time between two commits of a reader that keeps pace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCells:
    """Commits and lag of some groups at a sample; matrices are groups by partitions."""

    entry: Int64
    """Entries of the commits that have a cell in the matrices."""
    cell: Int64
    """The cell of each of these entries, counted row after row."""
    lag: Int64
    """Records."""
    committed_at: Int64
    """Times of the commits; `UNKNOWN`: no commit."""
    present_at: Int64
    """The first sample that shows the next record to read."""


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


def commit_steps(
    state: TopicState, groups: GroupCells, sampled: Int64, previous_at: int
) -> CommitSteps:
    """The groups' steps up to the last sample.

    Args:
        state: the topic after the sample.
        groups: the groups' commits and lag.
        sampled: by entry of the commits, the offset that the sample before counted; see
            `CommitTable`.
        previous_at: time of the sample before; `UNKNOWN`: there was none with an exact cut.
    """
    commits = state.commits
    partitions = groups.lag.shape[1]
    exact = state.exact_cut and previous_at != UNKNOWN
    if not exact or sampled is commits.offset:
        return CommitSteps.none(partitions)
    before = sampled[groups.entry]
    step = commits.offset[groups.entry] - before
    moved = (before != UNKNOWN) & (step > 0)
    if not moved.any():
        return CommitSteps.none(partitions)
    cell = groups.cell[moved]
    row, index = np.unique(cell // partitions, return_inverse=True)
    advance = np.zeros((row.size, partitions), np.int64)
    advance[index, cell % partitions] = step[moved]
    waited = groups.present_at[row] <= previous_at - BEHIND_MS
    behind = (advance > 0) & (groups.lag[row] > 0) & waited
    return CommitSteps(
        row=row, advance=advance, behind_at=np.where(behind, groups.committed_at[row], UNKNOWN)
    )


def waiting(groups: GroupCells, at: int, rate: Floats) -> Int64:
    """Records that wait for the groups: their lag, but for what a reader that keeps pace leaves.

    Such a reader has read what arrived since its last commit, but not committed it yet.

    Args:
        groups: the groups' commits and lag.
        at: time of the sample.
        rate: records that usually arrive per second, by partition; NaN: not known.
    """
    age = np.clip(at - groups.committed_at, 0, PACE_MS)
    age = np.where(groups.committed_at == UNKNOWN, 0, age)
    uncommitted = np.rint(np.nan_to_num(rate) * age / 1000.0).astype(np.int64)
    records: Int64 = np.maximum(groups.lag - uncommitted, 0)
    return records
