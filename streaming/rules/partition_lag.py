"""Lag by partition: records that a group has yet to read, from its commits and the ends of the log.

- `lag = end - max(committed, begin)`, never below zero. Records below the log's begin are lost to
  the group, and are counted as lost.
- Without a commit: no lag under the reset policy `latest`, the whole log under any other.
- A commit beyond the sampled end is no negative lag: the sample is stale. So is a partition whose
  end is unknown.
- A commit that lay beyond the log's end already before the end was read is out of range: its reader
  begins again as the reset policy says, as one without a commit does.
- Where only control records and aborted transactions are known to follow the last data record, lag
  is counted to the end of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from streaming.rules.event_time import Int64, Mask


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
    start = np.maximum(committed, first)
    latest = reset == "latest" if isinstance(reset, str) else reset
    from_begin = np.where(latest, 0, np.maximum(end - first, 0))
    lag = np.where(uncommitted | out_of_range, from_begin, np.maximum(end - start, 0))
    return Lag(
        lag=np.where(end_known, lag, 0),
        lost=np.where(uncommitted, 0, np.maximum(first - committed, 0)),
        stale=stale,
        out_of_range=out_of_range & end_known,
    )
