"""Scripted log: a test writes records line by line, and runs the pipeline on them."""

import base64
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from levelwind.assignors.protocol.records import (
    GroupRecord,
    MemberAssignment,
    PlannedTopic,
    Tombstone,
    encode_key,
)
from levelwind.assignors.protocol.records.cutting import cut
from levelwind.streaming.messages.rows import SinkRow
from levelwind.streaming.rules.skew import SkewRule
from levelwind_testing import records
from levelwind_testing.pipeline.local_pipeline import OFFSETS, TOPICS, LocalPipeline, Log
from levelwind_testing.pipeline.offsets_reference_codec import commit_key

SECOND = 1000
RULE = SkewRule(threshold=1.5, floor_seconds=3, duration_ms=3 * SECOND)


def name_of(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


CUTS = st.lists(st.integers(0, 100), max_size=12) | st.just(list(range(100)))
"""Ends of batches for `run`: anywhere, or after each record."""

ID, OTHER = bytes(15) + b"\x01", bytes(15) + b"\x02"


class Story(Log):
    """A log with a method for each kind of record; times are seconds."""

    def layout(
        self, at: float, topic: str, racks: Sequence[Sequence[str]], topic_id: bytes = ID
    ) -> None:
        record = records.topic(topic, racks, at=int(at * SECOND), topic_id=name_of(topic_id))
        self.add_record(TOPICS.metadata, int(at * SECOND), record)

    def sample(
        self,
        at: float,
        topic: str,
        end: Sequence[int],
        begin: Sequence[int] = (),
        topic_id: bytes = ID,
        commits: tuple[int, ...] | None = None,
        gaps: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        record = records.offsets(
            topic,
            end,
            at=int(at * SECOND),
            begin=begin,
            high=[offset + 7 for offset in end],
            topic_id=name_of(topic_id),
            gaps=gaps,
            offsets_topic_ends=commits,
        )
        self.add_record(TOPICS.metadata, int(at * SECOND), record)

    def gone(self, at: float, topic: str) -> None:
        for word in ("topic", "offsets"):
            self.add_record(TOPICS.metadata, int(at * SECOND), Tombstone((word, topic)))

    def commits(
        self,
        at: float,
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        topic_id: bytes | None = ID,
    ) -> None:
        for partition, offset in offsets.items():
            self.commit(group, topic, partition, offset, int(at * SECOND), topic_id)

    def member(
        self,
        at: float,
        group: str,
        instance: str,
        assigned: Mapping[str, tuple[int, ...]],
        *,
        rack: str | None = None,
        capacity: float = 1.0,
        state: str = "active",
    ) -> None:
        record = MemberAssignment(
            group=group,
            instance=instance,
            incarnation="x",
            planner_epoch=1,
            group_epoch=1,
            member_epoch=1,
            state=state,
            assigned=assigned,
            pending={},
            revoking={},
            rack=rack,
            capacity=capacity,
            reason="",
        )
        for part in cut(record):
            self.add_record(TOPICS.assignments, int(at * SECOND), part)

    def plan(
        self,
        at: float,
        group: str,
        metadata_at: float,
        topics: Mapping[str, PlannedTopic] | None = None,
    ) -> None:
        record = GroupRecord(
            group=group,
            mode="managed",
            planner_epoch=1,
            group_epoch=1,
            plan_id="p",
            strategy="lag",
            cause="",
            lag_at=None,
            metadata_at=int(metadata_at * SECOND),
            topics=topics or {},
            members=(),
            before=None,
            after=None,
            computed_at=int(at * SECOND),
            digest="",
        )
        for part in cut(record):
            self.add_record(TOPICS.assignments, int(at * SECOND), part)


def deleted_since_sample(story: Log, group: str, topic: str) -> bool:
    """Whether a commit of a group to a topic was deleted after the topic's last sample.

    Samples of these stories do not carry the end offsets of the offsets topic. Then commits after a
    sample count when their batch ends, so that a group which commits again before the next sample
    has left in between, or lost the start of a partition's velocity, only if a batch ended there:
    the one thing that depends on the batches.
    """
    prefix = commit_key(group, topic, 0)[:-4]
    committed: set[bytes] = set()
    sampled = deleted = False
    for message in story.messages:
        key = message.key or b""
        if message.topic == OFFSETS and key.startswith(prefix):
            if message.value is not None:
                committed.add(key)
            elif key in committed:
                committed.remove(key)
                deleted = deleted or sampled
        elif key == encode_key(("offsets", topic)):
            sampled, deleted = message.value is not None, False
            committed = committed if sampled else set()
    return deleted


def run(
    story: Log, pipeline: LocalPipeline | None = None, batches: Iterable[int] = ()
) -> list[SinkRow]:
    """Records published when the log is read in batches that end before these messages."""
    pipeline = pipeline or LocalPipeline(skew=RULE)
    bounds = [0, *sorted({cut % (len(story.messages) + 1) for cut in batches}), len(story.messages)]
    out: list[SinkRow] = []
    for first, last in itertools.pairwise(bounds):
        if batch := story.messages[first:last]:
            out += pipeline.run(batch)
    return out


def compacted(rows: Iterable[SinkRow]) -> dict[tuple[Any, ...], Any]:
    """Final content of a compacted topic by key, without tombstones."""
    latest = {tuple(json.loads(row.key)): row.value for row in rows}
    return {key: json.loads(value) for key, value in latest.items() if value is not None}


def triggers(rows: Iterable[SinkRow]) -> list[tuple[bytes, bytes | None]]:
    return [(row.key, row.value) for row in rows if row.topic == TOPICS.triggers]


def assert_alike(whole: Sequence[SinkRow], split: Sequence[SinkRow], groups: Iterable[str]) -> None:
    """Assert that two readings of a log gave the same triggers, and in the end the same lag."""
    for group in groups:
        first, second = (
            [(key, value) for key, value in triggers(rows) if json.loads(key)[1] == group]
            for rows in (whole, split)
        )
        assert first == second
    assert compacted(whole) == compacted(split)


def lag(rows: Iterable[SinkRow], group: str = "g", topic: str = "t") -> Any:
    return compacted(rows).get(("lag", group, topic))
