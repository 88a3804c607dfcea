"""Lag, exactly: what a group still has to read of each partition, from what it committed and where the log begins and ends.

- `lag = end - max(committed, begin)`, never below zero. What stands below the log's begin is lost, and reported so.
- No commit: nothing to read under the reset policy `latest`, the whole log under any other.
- A commit beyond the sampled end is no negative lag but a stale sample; so is a partition whose end is not known.
- Where it is known that only markers and aborted transactions stand before the end, what is to be read ends with the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from streaming.rules.event_time import (
        Int64,
        Mask,
    )


ResetPolicy: TypeAlias = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Each column has the shape of the commits that it was computed from."""

    lag: Int64
    lost: Int64
    stale: Mask


def lag_of(
    *, committed: Int64, begin: Int64, end: Int64, reset: ResetPolicy, data: Int64 | None = None
) -> Lag:
    """The lag of commits, one a partition (last axis), where `begin`, `end` and `data` are indexed by partition.

    `data` says where the last record ends, `UNKNOWN` where that is the end, or not known.
    """
    known = end >= 0
    stale = ~known | ((committed != UNKNOWN) & (committed > end))
    if data is not None:
        end = np.where(data == UNKNOWN, end, data)
    begins = np.maximum(begin, 0)
    none = committed == UNKNOWN
    start = np.maximum(committed, begins)
    without = 0 if reset == "latest" else np.maximum(end - begins, 0)
    lag = np.where(none, without, np.maximum(end - start, 0))
    return Lag(
        lag=np.where(known, lag, 0),
        lost=np.where(none, 0, np.maximum(begins - committed, 0)),
        stale=stale,
    )
