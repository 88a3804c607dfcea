"""The rows of the topics in one batch, unpacked, by topic and by kind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from levelwind.assignors.protocol.records import decode
from levelwind.streaming.messages.rows import Kind, PlanCovers, Raw, TopicCommits
from levelwind.streaming.messages.topic_columns import BucketCommits, BucketSamples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.assignors.protocol.records import Record, Rejection, Tombstone


class ReadRecord(NamedTuple):
    """A record of the observer as it was read, and its content."""

    raw: Raw
    record: Record | Tombstone | Rejection
    """A layout, a sample or a tombstone: the decoding passes nothing else on."""

    @classmethod
    def of(cls, raw: Raw) -> ReadRecord:
        """A record with its content."""
        return cls(raw, decode("metadata", raw.key, raw.value))


class TopicBatch(Struct, kw_only=True):
    """The content of a batch for one topic."""

    commits: list[TopicCommits] = []
    replayed_commits: list[TopicCommits] = []
    """Replays from an operator, each of one commit."""
    plans: list[PlanCovers] = []
    """Plans that cover the topic, the newest first."""
    records: list[ReadRecord] = []
    """Records of the observer, in the order of their log; replayed ones, too."""

    @classmethod
    def by_topic(cls, rows: Iterable[tuple[str, int, bytes]]) -> dict[str, TopicBatch]:
        """The batch of each topic, from rows in any order: topic, kind and payload."""
        batches: dict[str, TopicBatch] = defaultdict(cls)
        for topic, kind, payload in rows:
            match kind:
                case Kind.COMMITS:
                    for name, commits in BucketCommits.unpack(payload).by_topic():
                        batches[name].commits.append(commits)
                case Kind.SAMPLES:
                    samples = BucketSamples.unpack(payload)
                    for raw, record in zip(samples.raws, samples.records, strict=True):
                        batches[record.topic].records.append(ReadRecord(raw, record))
                case Kind.REPLAYED_COMMIT:
                    batches[topic].replayed_commits.append(TopicCommits.unpack(payload))
                case Kind.PLAN_COVERS:
                    batches[topic].plans.append(PlanCovers.unpack(payload))
                case _:
                    batches[topic].records.append(ReadRecord.of(Raw.unpack(payload)))
        for batch in batches.values():
            batch.plans.sort(key=lambda plan: (plan.at, plan.group), reverse=True)
            batch.records.sort(key=lambda read: (read.raw.partition, read.raw.offset))
        return batches
