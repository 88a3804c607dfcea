"""Samples of a topic: the commits that belong to one, and the state after it.

Pure functions of the topic's state.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from levelwind.streaming.rules.event_time import JUMP_MS, UNKNOWN
from levelwind.streaming.topic.end_history import with_samples
from levelwind.streaming.topic.state import (
    BASELINES,
    END_COLUMNS,
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
    """The state without groups whose last plan is older than `READER_TTL_MS` at a time."""
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
    (after,) = sampled_together([state], [record], [position], rule)
    return after


def sampled_together(
    states: Sequence[TopicState],
    records: Sequence[OffsetsRecord],
    positions: Sequence[LogPosition],
    rule: LagRule,
) -> list[TopicState]:
    """The states of some topics after a sample of each, in columns of all their partitions."""
    known = {name: np.concatenate([getattr(s, name) for s in states]) for name in END_COLUMNS}
    ends = _newest_ends(known, records, rule)
    bounds = itertools.pairwise([0, *itertools.accumulate(len(r.begin) for r in records)])
    states = [
        replace(
            state,
            at=record.at,
            gaps=record.gaps or (),
            sample_position=position,
            exact_cut=record.offsets_topic_ends is not None,
            **{name: column[first:last] for name, column in ends.items()},
        )
        for state, record, position, (first, last) in zip(
            states, records, positions, bounds, strict=True
        )
    ]
    newest = [sampled_end(state, rule) for state in states]
    histories = with_samples(
        [state.history for state in states], [state.at for state in states], newest
    )
    return [
        _with_baselines(replace(state, history=history), end)
        for state, history, end in zip(states, histories, newest, strict=True)
    ]


def _newest_ends(
    before: Mapping[str, Int64], records: Sequence[OffsetsRecord], rule: LagRule
) -> dict[str, Int64]:
    """The `END_COLUMNS` after samples, each of which stands for what a sample could not read."""
    sizes = [len(record.begin) for record in records]
    # Negative where a sample could not read it.
    read = {
        name: _chained(
            [getattr(record, name) or (UNKNOWN,) * len(record.begin) for record in records]
        )
        for name in ("begin", "stable", "high", "data_end")
    }
    at = np.repeat(np.array([record.at for record in records], np.int64), sizes)
    end_read = read[rule.end_kind] >= 0
    read["end_read_at"] = np.where(end_read, at, UNKNOWN)
    newest = {name: _newest(before[name], column) for name, column in read.items()}
    return newest | {"data_end": np.where(end_read, read["data_end"], newest["data_end"])}


def _with_baselines(state: TopicState, end: Int64) -> TopicState:
    """The state after a sample with its baselines, of which that sample may be a new one.

    Args:
        state: the state after the sample.
        end: the end of each partition at the sample.
    """
    # A clock that was set back leaves baselines in the future: drop them.
    kept = tuple([baseline for baseline in state.baselines if baseline.at < state.at])
    if len(kept) == len(state.baselines) and kept and state.at - kept[-1].at < BASELINE_MS:
        return state
    return replace(
        state,
        baselines=(*kept, Baseline(at=state.at, end=end))[-BASELINES:],
        commits=state.commits.with_new_baseline(),
    )


def _chained(columns: Sequence[Sequence[int]]) -> Int64:
    """Columns one after another, as one."""
    return np.array(list(itertools.chain.from_iterable(columns)), np.int64)


def _newest(before: Int64, read: Int64) -> Int64:
    """By partition, the value that a sample read; the former one where it read none (negative)."""
    known = np.full(read.size, UNKNOWN, np.int64)
    known[: before.size] = before[: read.size]
    return np.where(read < 0, known, read)
