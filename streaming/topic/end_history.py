"""End offsets of a topic at past samples: they say when a record arrived.

Each sample adds a point: the end offsets of all partitions at one time. Beyond `POINTS` points, the
one is dropped whose removal loses least resolution relative to its age, so that young points lie
close together. Between two points records are taken to have arrived evenly: the arrival time of a
record is wrong by no more than the distance of its two points, at most `MAX_GAP_SHARE` of its age
(measured over a week of samples, one a second). Points older than `HORIZON_MS` are dropped.

End offsets of a partition never fall: a log that was truncated lost the records beyond its new end,
so none of them counts as arrived before. When a clock is set back, the points in its future go.

Cost: `POINTS` * 8 bytes a partition in memory. Packed, each point but the first takes 4 bytes at
most, its step from the point before: 132 bytes a partition (twice that where a partition gained
2**31 records between two points), less where steps are small.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from levelwind.streaming.rules.event_time import UNKNOWN, Int64

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from levelwind.streaming.rules.event_time import Floats, Mask


POINTS = 32
"""The number of points that are kept."""
MAX_GAP_SHARE = 0.55
"""Of a record's age, the largest distance of the two points between which the record arrived."""
HORIZON_MS = 7 * 24 * 60 * 60 * 1000


class EndOffsetHistory(Struct, frozen=True, kw_only=True):
    """The points of a topic, the oldest first."""

    at: Int64
    """The time of each point, in milliseconds since the epoch."""
    end: Int64
    """The end offsets: rows are points, columns partitions; `UNKNOWN`: no end was known yet."""

    @classmethod
    def empty(cls) -> EndOffsetHistory:
        """The history before the first sample."""
        return cls(at=np.zeros(0, np.int64), end=np.zeros((0, 0), np.int64))

    def with_sample(self, at: int, end: Int64) -> EndOffsetHistory:
        """This history after one more sample, whose end offsets are indexed by partition."""
        known = self.end[:, : end.size]
        if known.shape[1] < end.size:  # the topic grew
            new = np.full((known.shape[0], end.size - known.shape[1]), UNKNOWN, np.int64)
            known = np.concatenate([known, new], axis=1)
        kept = (self.at < at) & (self.at >= at - HORIZON_MS)
        times = np.append(self.at[kept], at)
        ends = np.concatenate([np.minimum(known[kept], end), end[None, :]])
        if times.size > POINTS:
            width = (times[2:] - times[:-2]) / (at - times[1:-1] + 1)
            gone = 1 + int(width.argmin())
            times, ends = np.delete(times, gone), np.delete(ends, gone, axis=0)
        return EndOffsetHistory(at=times, end=ends)

    def arrived(self, offset: Int64, partition: Int64) -> tuple[Floats, Int64, Mask]:
        """When the records at some offsets arrived, and the first samples that show them.

        The mask tells for which records the time is only an upper bound.

        Args:
            offset: offsets below the newest end.
            partition: the partition of each.
        """
        later = self._first_beyond(offset, partition)
        last = self.at.size - 1
        after = np.minimum(later, last)
        before = np.maximum(after - 1, 0)
        low, high = self.end[before, partition], self.end[after, partition]
        since, until = self.at[before], self.at[after]
        # An end that was not known yet bounds nothing.
        unbounded = (later == 0) | (low == UNKNOWN)
        share = np.where(high > low, (offset - low) / np.maximum(high - low, 1), 0.0)
        return np.where(unbounded, until, since + share * (until - since)), until, unbounded

    def _first_beyond(self, offset: Int64, partition: Int64) -> Int64:
        """For each record, the first point whose end is beyond it: a search, as ends never fall."""
        point = np.zeros(offset.size, np.int64)
        step = 1 << self.at.size.bit_length() - 1
        while step:
            reached = point + step
            inside = reached <= self.at.size
            below = self.end[np.where(inside, reached - 1, 0), partition] <= offset
            point = np.where(inside & below, reached, point)
            step >>= 1
        return point

    @classmethod
    def joined(cls, histories: Sequence[EndOffsetHistory]) -> EndOffsetHistory:
        """Histories of topics with the same times, as one: their partitions in order."""
        if len(histories) == 1:
            return histories[0]
        ends = [history.end for history in histories]
        return cls(at=histories[0].at, end=np.concatenate(ends, axis=1))


def wide_steps(histories: Sequence[EndOffsetHistory]) -> list[bool]:
    """Whether a step of each history takes more than 32 bits."""
    # Ends never fall, so that steps are as wide as the whole way at most.
    last = [history.end[-1] for history in histories if history.at.size]
    if not last or np.concatenate(last).max(initial=0) < 2**31 - 1:
        return [False] * len(histories)
    highest = [
        int(history.end[-1].max(initial=0)) if history.at.size else 0 for history in histories
    ]
    return [
        high >= 2**31 - 1 and int(np.abs(np.diff(history.end, axis=0)).max(initial=0)) >= 2**31
        for high, history in zip(highest, histories, strict=True)
    ]


def packable_ends(
    histories: Sequence[EndOffsetHistory], *, wide: bool
) -> dict[str, npt.NDArray[Any]]:
    """The columns to be packed, by name, with a row for each of some histories of the same shape.

    All or, where `wide` is false, none of them have wide steps.
    """
    first = histories[0]
    if not first.at.size:
        return {}
    ends = np.concatenate([history.end for history in histories])
    ends = ends.reshape(len(histories), *first.end.shape)
    steps = np.diff(ends, axis=1).astype(np.int64 if wide else np.int32)
    return {
        "ends_at": np.concatenate([history.at for history in histories]).reshape(ends.shape[:2]),
        "ends_first": ends[:, 0],
        "ends_steps": steps.reshape(len(histories), -1),
    }


def ends_of(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The columns of histories that were packed, with a row for each history, in full width."""
    if "ends_at" not in arrays:
        return {}
    at, first = arrays["ends_at"], arrays["ends_first"]
    steps = arrays["ends_steps"].astype(np.int64)
    steps = steps.reshape(at.shape[0], at.shape[1] - 1, first.shape[1])
    ends = np.cumsum(np.concatenate([first[:, None, :], steps], axis=1), axis=1)
    return {"ends_at": at, "ends": ends}


def with_samples(
    histories: Sequence[EndOffsetHistory], at: Sequence[int], ends: Sequence[Int64]
) -> list[EndOffsetHistory]:
    """The histories of some topics after one more sample of each.

    Args:
        histories: the histories before.
        at: by topic, the time of its sample.
        ends: by topic, the end offsets by partition.
    """
    alike: dict[tuple[bytes, int], list[int]] = {}
    for topic, (history, time) in enumerate(zip(histories, at, strict=True)):
        alike.setdefault((history.at.tobytes(), time), []).append(topic)
    after = list(histories)
    for (_, time), topics in alike.items():
        joint = EndOffsetHistory.joined([histories[topic] for topic in topics])
        joint = joint.with_sample(time, np.concatenate([ends[topic] for topic in topics]))
        bounds = [0, *accumulate([ends[topic].size for topic in topics])]
        for topic, (first, last) in zip(topics, pairwise(bounds), strict=True):
            after[topic] = EndOffsetHistory(at=joint.at, end=joint.end[:, first:last])
    return after
