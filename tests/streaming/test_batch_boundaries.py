"""A sample is a cut through all logs: its lag is the same however the logs are split into batches.

Each log is read at a pace of its own, far ahead of another or far behind it, and the commits'
timestamps follow no clock. The naive twin reads whole logs, record by record.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.protocol.records import OffsetsRecord
from levelwind.streaming.messages.lag_columns import LagSamples
from levelwind.streaming.messages.rows import Kind, SinkRow
from levelwind.streaming.rules.arrival_rate import arrival_rate
from levelwind.streaming.topic.end_history import EndOffsetHistory
from levelwind_testing.examples import examples
from levelwind_testing.pipeline.local_pipeline import (
    OFFSETS,
    TOPICS,
    GroupEvent,
    LocalPipeline,
    Message,
)
from levelwind_testing.pipeline.offsets_reference_codec import commit_key, commit_value
from levelwind_testing.pipeline.scripted_log import (
    CUTS,
    ID,
    OTHER,
    RULE,
    SECOND,
    Story,
    assert_alike,
    name_of,
    run,
)

GROUPS = ("g", "h")
PARTITIONS = 3
BASE = 10_000_000
SOURCES = {"g": 0, "h": 1}
"""Partition of the offsets topic by group: it holds all commits of the group."""


@dataclass(slots=True)
class History(Story):
    """A story whose samples carry the ends of the offsets topic, and a naive reader's result."""

    ends: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    id: bytes = ID
    committed: dict[tuple[str, int], tuple[int, bytes | None, int]] = field(default_factory=dict)
    """Offset, topic id and time of the newest commit, by group and partition."""
    sampled_ends: dict[bytes, EndOffsetHistory] = field(default_factory=dict)
    """By topic id; a topic that comes back under its id begins anew."""
    lag_samples: dict[str, list[tuple[int, list[int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Time, and records that wait for the group, of each sample, by group."""

    def write(self, group: str, partition: int, value: bytes | None, at: int) -> None:
        source = SOURCES[group]
        key = commit_key(group, "t", partition)
        self.messages.append(
            Message(
                topic=OFFSETS,
                partition=source,
                offset=self.ends[source],
                at=at,
                key=key,
                value=value,
            )
        )
        self.ends[source] += 1

    def commit_offset(self, group: str, partition: int, offset: int, at: int) -> None:
        self.write(group, partition, commit_value(offset, at, tags=((0, self.id),)), at)
        self.committed[group, partition] = offset, self.id, at

    def delete_commit(self, group: str, partition: int, at: int) -> None:
        self.write(group, partition, None, at)
        self.committed.pop((group, partition), None)

    def sample_offsets(self, at: int, end: list[int]) -> None:
        record = OffsetsRecord(
            topic="t",
            at=at,
            id=name_of(self.id),
            begin=(0,) * PARTITIONS,
            stable=tuple(end),
            high=tuple(end),
            offsets_topic_ends=tuple(self.ends.values()),
        )
        self.add_record(TOPICS.metadata, at, record)
        known = self.sampled_ends.get(self.id, EndOffsetHistory.empty())
        self.sampled_ends = {self.id: known.with_sample(at, np.array(end, np.int64))}
        for group in GROUPS:
            if lag := self.waiting(group, at, end):
                self.lag_samples[group].append((at, lag))

    def waiting(self, group: str, at: int, end: list[int]) -> list[int]:
        """Lag, but for what usually arrives since a commit, in ten seconds at most."""
        committed = {
            p: (offset, time)
            for (name, p), (offset, id_, time) in self.committed.items()
            if (name, id_) == (group, self.id)
        }
        sampled = self.sampled_ends[self.id]
        rates = np.nan_to_num(arrival_rate(sampled.at, sampled.end)).tolist()
        records = []
        for p, e in enumerate(end):
            offset, time = committed.get(p, (0, at))
            usual = round(rates[p] * min(max(at - time, 0), 10_000) / 1000)
            behind = e if offset > e else e - offset  # beyond the log: its reader begins again
            records.append(max(behind - usual, 0))
        return records if committed else []


def initial_history() -> History:
    """Two groups that read all partitions of a topic without records."""
    history = History()
    history.layout(0, "t", [["a"]] * PARTITIONS)
    for group in GROUPS:
        history.member(0, group, "m0", {"t": (0, 2)}, rack="a")
        history.member(0, group, "m1", {"t": (1,)})
    history.sample_offsets(BASE, [0] * PARTITIONS)
    return history


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = initial_history()
    kinds = ["commit"] * 4 + ["sample"] * 6 + ["tombstone", "anew"]
    moves = st.tuples(
        st.sampled_from(kinds),
        st.sampled_from(GROUPS),
        st.integers(0, PARTITIONS - 1),
        st.integers(0, 400),
        st.integers(-20, 20),
    )
    for second, (kind, group, partition, size, skew) in enumerate(
        draw(st.lists(moves, min_size=4, max_size=40)), 1
    ):
        at = BASE + second * SECOND
        match kind:
            case "commit":
                # However the clock runs, no two commits share one of the intake's buckets.
                history.commit_offset(group, partition, size, at + skew * 100 * SECOND)
            case "tombstone":
                history.delete_commit(group, partition, at)
            case "sample":
                history.sample_offsets(at, [400, size, 2 * size])
            case "anew":
                history.id = OTHER if history.id == ID else bytes(15) + bytes([second + 2])
                history.sample_offsets(at, [10, 20, size])
    history.sample_offsets(BASE + 100 * SECOND, [500, 500, 500])
    return history


def read(
    history: History, paces: Iterable[tuple[int, int, int, int]]
) -> tuple[list[SinkRow], LocalPipeline, Any]:
    """Read the logs batch by batch; return the published records, pipeline and lag samples.

    Each batch reads the given number of records of each log, and the last batch the rest.
    """
    logs: dict[tuple[str, int], list[Message]] = defaultdict(list)
    for message in history.messages:
        logs[message.topic, message.partition].append(message)
    names = [(OFFSETS, 0), (OFFSETS, 1), (TOPICS.metadata, 0)]
    pipeline = RecordingPipeline(skew=RULE, offsets_read={0: 0, 1: 0})
    # Owners of partitions are no part of the cut: they are known from the start.
    out = pipeline.run(logs[TOPICS.assignments, 0])
    for pace in [*paces, (1000,) * 3]:
        batch = [
            logs[name].pop(0)
            for name, count in zip(names, pace, strict=False)
            for _ in logs[name][:count]
        ]
        out += pipeline.run(batch) if batch else []
    return out, pipeline, pipeline.lag_samples


@dataclass(slots=True)
class RecordingPipeline(LocalPipeline):
    lag_samples: dict[str, list[tuple[int, list[int]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def _of_bucket(self, state_key: str, rows: list[GroupEvent]) -> list[SinkRow]:
        for _, kind, payload in rows:
            if kind == Kind.LAG_SAMPLES:
                samples = LagSamples.unpack(payload)
                for row, lag in enumerate(samples.lag.tolist()):
                    group, at = samples.groups[samples.group[row]], samples.sample(row).at
                    self.lag_samples[group].append((at, lag))
        return LocalPipeline._of_bucket(self, state_key, rows)


paces = st.lists(st.tuples(*[st.integers(0, 6)] * 3), max_size=15)


@settings(max_examples=examples(60))
@given(histories(), paces)
def test_a_sample_counts_the_commits_below_its_cut_and_no_other(
    history: History, paces: list[tuple[int, int, int, int]]
) -> None:
    _, _, lag_samples = read(history, paces)
    assert dict(lag_samples) == dict(history.lag_samples)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(histories(), paces)
def test_logs_read_at_any_pace_give_the_same_triggers_and_in_the_end_the_same_lag(
    history: History, paces: list[tuple[int, int, int, int]]
) -> None:
    whole, split = read(history, [])[0], read(history, paces)[0]
    assert_alike(whole, split, GROUPS)


@st.composite
def turbulent_histories(draw: st.DrawFn) -> History:
    """Topics are deleted and re-created, racks change, and groups are deleted."""
    history = initial_history()
    kinds = ["commit", "sample"] * 4 + ["tombstone", "deleted", "layout", *["gone", "anew"] * 2]
    moves = st.tuples(
        st.sampled_from(kinds),
        st.sampled_from(GROUPS),
        st.integers(0, PARTITIONS - 1),
        st.integers(0, 400),
    )
    for second, (kind, group, partition, size) in enumerate(
        draw(st.lists(moves, min_size=4, max_size=30)), BASE // SECOND + 1
    ):
        at = second * SECOND
        match kind:
            case "commit":
                history.commit_offset(group, partition, size, at)
            case "tombstone":
                history.delete_commit(group, partition, at)
            case "deleted":
                for removed in range(PARTITIONS):
                    history.delete_commit(group, removed, at)
            case "sample":
                history.sample_offsets(at, [400, size, 2 * size])
            case "layout":
                history.layout(second, "t", [["a"], ["b"], ["abc"[partition]]], topic_id=history.id)
            case "gone":
                history.gone(second, "t")
            case "anew":
                history.id = bytes(14) + (second - BASE // SECOND + 2).to_bytes(2, "big")
                history.sample_offsets(at, [10, 20, size])
    history.layout(BASE // SECOND + 90, "t", [["a"]] * PARTITIONS, topic_id=history.id)
    history.sample_offsets(BASE + 100 * SECOND, [500, 500, 500])
    return history


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(turbulent_histories(), CUTS)
def test_batches_that_end_anywhere_give_the_same_result_whatever_happens_to_a_topic(
    history: History, cuts: list[int]
) -> None:
    whole, split = (
        run(history, LocalPipeline(skew=RULE, offsets_read={0: 0, 1: 0}), some)
        for some in ([], cuts)
    )
    assert_alike(whole, split, GROUPS)
