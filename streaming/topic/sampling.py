"""Samples of a topic: the commits that belong to one, and the state after it.

Pure functions of the topic's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from levelwind.streaming.rules.event_time import JUMP_MS, UNKNOWN
from levelwind.streaming.topic.state import (
    BASELINES,
    MAX_DEFERRED_RECORDS,
    READER_TTL_MS,
    UNCOUNTED_MARGIN,
    Baseline,
    sampled_end,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.protocol.records import OffsetsRecord
    from levelwind.streaming.messages.rows import Raw
    from levelwind.streaming.rules.event_time import Int64, Mask
    from levelwind.streaming.topic.commit_columns import UncountedCommits
    from levelwind.streaming.topic.state import LagRule, LogPosition, TopicState


BASELINE_MS = 60_000
"""Speeds are measured over one to two of these."""
OFFSETS_KEY = b'["offsets"'
"""The beginning of the key of a sample."""


def outdated(state: TopicState, record: OffsetsRecord, position: LogPosition) -> bool:
    """Whether a sample must be ignored: it was applied already, or is late.

    The samples of a topic are in order in their log, so their offsets there order them, not their
    times. A sample with a higher offset than the last one, but an earlier time, is late if the
    difference is less than `JUMP_MS`; with a larger difference the clock was set back.
    """
    if record.id != state.id:
        return False
    last = state.sample_position
    applied = last is not None and last[0] == position[0] and last[1] >= position[1]
    return applied or 0 <= state.at - record.at < JUMP_MS


def complete(record: OffsetsRecord, offsets_read: Mapping[int, int] | None) -> bool:
    """Whether all commits that belong to a sample have been read.

    True where it is unknown how far they were read, or how far the sample reaches.
    """
    if record.offsets_topic_ends is None or offsets_read is None:
        return True
    ends = enumerate(record.offsets_topic_ends)
    return all(offsets_read.get(source, end) >= end for source, end in ends)


def deferred(raws: Sequence[Raw]) -> tuple[bytes, ...]:
    """Pack records for a later batch, without the oldest samples if there are too many records."""
    excess = len(raws) - MAX_DEFERRED_RECORDS
    kept: list[bytes] = []
    for raw in raws:
        if excess > 0 and raw.value is not None and (raw.key or b"").startswith(OFFSETS_KEY):
            excess -= 1
        else:
            kept.append(raw.pack())
    return tuple(kept)


def before_sample(uncounted: UncountedCommits, record: OffsetsRecord) -> Mask:
    """Mask of the commits that a sample counts: below its cut, or up to its time without a cut."""
    if record.offsets_topic_ends is None:
        return uncounted.effective_at <= record.at
    # The last end is that of a partition which the offsets topic did not have yet.
    cut = np.array([*record.offsets_topic_ends, 0], np.int64)
    source = np.minimum(uncounted.source, cut.size - 1)
    return uncounted.position < cut[source]


def too_many_uncounted(state: TopicState) -> bool:
    """Whether the uncounted commits exceed the counted ones by more than `UNCOUNTED_MARGIN`."""
    return state.uncounted_commits.code.size > state.commits.code.size + UNCOUNTED_MARGIN


def counted(state: TopicState, rows: Mask | None = None) -> TopicState:
    """The state with some of the uncounted commits counted; by default all."""
    uncounted = state.uncounted_commits
    if not uncounted.code.size:
        return state
    if rows is None or rows.all():
        due, rest = uncounted, uncounted.take(slice(0))
    else:
        due, rest = uncounted.take(rows), uncounted.take(~rows)
    return replace(state, commits=state.commits.merged(due), uncounted_commits=rest)


def without_expired_readers(state: TopicState, at: int) -> TopicState:
    """The state without groups whose last plan is older than `READER_TTL_MS`."""
    readers = {
        group: planned_at
        for group, planned_at in state.planned_readers.items()
        if at - planned_at < READER_TTL_MS
    }
    if len(readers) == len(state.planned_readers):
        return state
    return replace(state, planned_readers=readers)


def sampled(
    state: TopicState, record: OffsetsRecord, position: LogPosition, rule: LagRule
) -> TopicState:
    """The state after a sample, which counts the commits that the state counts."""
    ends = np.array(record.stable if rule.end_kind == "stable" else record.high, np.int64)
    end_read = ends >= 0
    data_end = (
        np.full(ends.size, UNKNOWN, np.int64)
        if record.data_end is None
        else np.array(record.data_end, np.int64)
    )
    state = replace(
        state,
        at=record.at,
        begin=_newest(state.begin, np.array(record.begin, np.int64)),
        stable=_newest(state.stable, np.array(record.stable, np.int64)),
        high=_newest(state.high, np.array(record.high, np.int64)),
        data_end=np.where(end_read, data_end, _newest(state.data_end, data_end)),
        gaps=record.gaps or (),
        end_read_at=_newest(state.end_read_at, np.where(end_read, record.at, UNKNOWN)),
        sample_position=position,
        exact_cut=record.offsets_topic_ends is not None,
    )
    end = sampled_end(state, rule)
    state = replace(state, history=state.history.with_sample(record.at, end))
    # A clock that was set back leaves baselines in the future: drop them.
    baselines = tuple(baseline for baseline in state.baselines if baseline.at < record.at)
    if (
        len(baselines) < len(state.baselines)
        or not baselines
        or record.at - baselines[-1].at >= BASELINE_MS
    ):
        baselines = (*baselines, Baseline(at=record.at, end=end))[-BASELINES:]
        state = replace(state, commits=state.commits.with_new_baseline())
    return replace(state, baselines=baselines)


def _newest(before: Int64, read: Int64) -> Int64:
    """By partition, the value that a sample read; the former one where it read none (negative)."""
    known = np.full(read.size, UNKNOWN, np.int64)
    known[: before.size] = before[: read.size]
    return np.where(read < 0, known, read)
