"""A topic's ends in the past: when a record arrived, and how many arrive.

Each sample adds a point, the ends of all partitions at one time. Of more than `POINTS` that one goes whose neighbours lie
nearest to each other for its age, so that the points stand the closer the younger they are. Between two points records
are taken to have arrived evenly: what is said of a record's arrival is wrong by no more than their distance, at most
`FAR` of its age (measured over a week of samples, one a second). Points older than `HORIZON` go.

In a partition the ends never fall: a log that was cut off has lost what it had beyond its new end, so that nothing of it
counts as arrived before. A clock that was set back takes the points with it that lie in its future.

Cost: `POINTS` * 8 bytes a partition in memory. Packed, each point but the first is 4 bytes, the step from the one before:
132 bytes a partition (twice that where a partition gained 2**31 records between two points).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from streaming.rules.event_time import (
        Floats,
        Int64,
        Mask,
    )


POINTS = 32
FAR = 0.55
HORIZON = 7 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOffsetHistory:
    """Rows by point, the oldest first; columns by partition, -1 where no end was known yet."""

    at: Int64
    end: Int64

    @classmethod
    def empty(cls) -> EndOffsetHistory:
        """No sample was taken yet."""
        return cls(at=np.zeros(0, np.int64), end=np.zeros((0, 0), np.int64))

    def with_sample(self, at: int, end: Int64) -> EndOffsetHistory:
        """With one sample more; `end` is indexed by partition."""
        known = self.end[:, : end.size]
        if known.shape[1] < end.size:  # the topic grew
            new = np.full((known.shape[0], end.size - known.shape[1]), UNKNOWN, np.int64)
            known = np.concatenate([known, new], axis=1)
        kept = (self.at < at) & (self.at >= at - HORIZON)
        times = np.append(self.at[kept], at)
        ends = np.concatenate([np.minimum(known[kept], end), end[None, :]])
        if times.size > POINTS:
            width = (times[2:] - times[:-2]) / (at - times[1:-1] + 1)
            gone = 1 + int(width.argmin())
            times, ends = np.delete(times, gone), np.delete(ends, gone, axis=0)
        return EndOffsetHistory(at=times, end=ends)

    def arrived(self, offset: Int64) -> tuple[Floats, Mask]:
        """When the records at some offsets (last axis: partition), all below the newest end, arrived.

        Also, of which it is only known that they arrived no later than that.
        """
        ends = self.end.reshape(self.at.size, *(1,) * (offset.ndim - 1), offset.shape[-1])
        later = np.count_nonzero(
            ends <= offset, axis=0
        )  # of each record, the first point whose end is beyond it
        last = self.at.size - 1
        partition = np.broadcast_to(np.arange(offset.shape[-1]), offset.shape)
        after = np.minimum(later, last)
        before = np.maximum(after - 1, 0)
        low, high = self.end[before, partition], self.end[after, partition]
        since, until = self.at[before], self.at[after]
        # An end that was not known yet bounds nothing.
        unbounded = (later == 0) | (low == UNKNOWN)
        share = np.where(high > low, (offset - low) / np.maximum(high - low, 1), 0.0)
        return np.where(unbounded, until, since + share * (until - since)), unbounded

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """To be packed."""
        if not self.at.size:
            return {}
        steps = np.diff(self.end, axis=0)
        narrow = not steps.size or int(np.abs(steps).max()) < 2**31
        return {
            "ends_at": self.at,
            "ends_first": self.end[0],
            "ends_steps": steps.astype(np.int32 if narrow else np.int64).ravel(),
        }

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> EndOffsetHistory:
        """From what was packed."""
        if "ends_at" not in arrays:
            return cls.empty()
        at, first = arrays["ends_at"], arrays["ends_first"]
        steps = arrays["ends_steps"].astype(np.int64).reshape(at.size - 1, first.size)
        return cls(at=at, end=np.cumsum(np.concatenate([first[None, :], steps]), axis=0))
