"""Lag by partition: records that a group has yet to read, from its commits and the ends of the log.

- `lag = end - max(committed, begin)`, never below zero. Records below the log's begin are lost to
  the group, and are counted as lost.
- Without a commit: no lag under the reset policy `latest`, the whole log under any other.
- A commit beyond the sampled end is no negative lag: the sample is stale. So is a partition whose
  end is unknown.
- A commit that lay beyond the log's end already before the end was read is out of range: its reader
  begins again as the reset policy says, as one without a commit does.
- Offsets that are known to hold no record, between those that do, are no lag. Where a partition has
  such offsets and not all of the lag was examined, the lag is an upper bound.
- Where only control records and aborted transactions are known to follow the last data record, lag
  is counted to the end of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from levelwind.streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.streaming.rules.event_time import Int64, Mask


ResetPolicy: TypeAlias = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Lag of commits; each column has the shape of the commits that it was computed from."""

    lag: Int64
    """Records that are still to be read."""
    lost: Int64
    """Records that the log deleted before the group read them."""
    stale: Mask
    """Whether the sample is too old, or too incomplete, for the commit."""
    upper_bound: Mask
    """Whether the lag may count offsets without a record."""
    out_of_range: Mask
    """Whether the commit lies beyond the log, so that its reader begins by the reset policy."""


def lag_of(
    *,
    committed: Int64,
    begin: Int64,
    end: Int64,
    reset: ResetPolicy | Mask,
    data_end: Int64 | None = None,
    log_end: Int64 | None = None,
    gaps: Sequence[Sequence[int]] = (),
) -> Lag:
    """Compute the lag of commits.

    Args:
        committed: committed offsets; the last axis is the partition. `UNKNOWN`: no commit.
        begin: first offset of the log, by partition. `UNKNOWN` counts as 0.
        end: end offset of the log, by partition, or `UNKNOWN`.
        reset: where a reader without a commit, or with one out of range, begins to read; as a
            mask, whether that is the end, in a shape that fits the commits.
        data_end: offset after the last data record, by partition. `UNKNOWN`, or None for all: the
            log's end counts.
        log_end: a high watermark that is no older than the commit, by commit; a commit beyond it is
            out of range. `UNKNOWN`, or None for all: that cannot be known.
        gaps: by partition, offsets without a record; see `OffsetsRecord`. Empty: none is known.
    """
    end_known = end >= 0
    uncommitted = committed == UNKNOWN
    if log_end is None:
        out_of_range = np.zeros(committed.shape, np.bool_)
    else:
        out_of_range = ~uncommitted & (log_end != UNKNOWN) & (committed > log_end)
    stale = ~end_known | (~uncommitted & ~out_of_range & (committed > end))
    if data_end is not None:
        end = np.where(data_end == UNKNOWN, end, data_end)
    first = np.maximum(begin, 0)
    latest = reset == "latest" if isinstance(reset, str) else reset
    by_policy = np.where(latest, end, first)
    start = np.where(uncommitted | out_of_range, by_policy, np.maximum(committed, first))
    lag = np.where(end_known, np.maximum(end - start, 0), 0)
    upper_bound = np.zeros(lag.shape, np.bool_)
    for partition, examined in enumerate(gaps):
        if examined:
            cells = lag[..., partition], start[..., partition], end[..., partition]
            lag[..., partition], upper_bound[..., partition] = _without_gaps(*cells, examined)
    return Lag(
        lag=lag,
        lost=np.where(uncommitted, 0, np.maximum(first - committed, 0)),
        stale=stale,
        upper_bound=upper_bound,
        out_of_range=out_of_range & end_known,
    )


def _without_gaps(
    lag: Int64, start: Int64, end: Int64, examined: Sequence[int]
) -> tuple[Int64, Mask]:
    """The lag of commits in one partition without the gaps, and whether it is an upper bound."""
    first, last, *gaps = examined
    begins, ends = np.array(gaps, np.int64).reshape(-1, 2).T
    inside = np.minimum(ends, end[..., None]) - np.maximum(begins, start[..., None])
    records = np.maximum(lag - np.maximum(inside, 0).sum(axis=-1), 0)
    return records, (records > 0) & ((start < first) | (end > last))
