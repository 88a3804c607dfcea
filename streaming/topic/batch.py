"""The rows of the topics in one batch, unpacked, by topic and by kind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from levelwind.assignors.protocol.records import decode
from levelwind.streaming.messages.rows import NO_REPLAY, Kind, PlanCovers, Raw
from levelwind.streaming.messages.topic_columns import BucketCommits, BucketSamples, TopicCommits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.assignors.protocol.records import OffsetsRecord, Record, Rejection, Tombstone

MAX_UNPACKED_BYTES = 2**24
"""The size of the plain samples of a bucket, as values of their records, whose content is kept.

The content takes three times the value. In a backlog the content of the samples beyond is decoded
once more, when their topic is updated."""


class ReadRecord(NamedTuple):
    """A record of the observer as it was read."""

    raw: Raw
    sample: OffsetsRecord | None = None
    """Its content, if it is a plain sample whose content is kept."""

    @property
    def record(self) -> Record | Tombstone | Rejection:
        """Its content: a layout, a sample or a tombstone; the decoding passes nothing else on.

        That of a wide topic takes megabytes, and is not kept; nor are those of a backlog.
        """
        return self.sample or decode("metadata", self.raw.key, self.raw.value)


class TopicBatch(Struct, kw_only=True):
    """The content of a batch for one topic."""

    commits: list[TopicCommits] = []
    replayed_commits: list[TopicCommits] = []
    """Replays from an operator, each of one commit."""
    plans: list[PlanCovers] = []
    """Plans that cover the topic, the newest first."""
    samples: list[ReadRecord] = []
    """Plain samples."""
    packed_records: list[bytes] = []
    """Other records of the observer, each a packed `Raw`."""

    @property
    def records(self) -> list[ReadRecord]:
        """Records of the observer, in the order of their log; replayed ones, too."""
        others = [ReadRecord(Raw.unpack(payload)) for payload in self.packed_records]
        return sorted([*self.samples, *others], key=lambda r: (r.raw.partition, r.raw.offset))

    @classmethod
    def by_topic(cls, rows: Iterable[tuple[str, int, bytes]]) -> dict[str, TopicBatch]:
        """The batch of each topic, from rows in any order: topic, kind and payload."""
        batches: dict[str, TopicBatch] = defaultdict(cls)
        size = 0
        for topic, kind, payload in rows:
            match kind:
                case Kind.COMMITS:
                    for name, commits in BucketCommits.unpack(payload).by_topic():
                        batch, is_read = batches[name], commits.until == NO_REPLAY
                        (batch.commits if is_read else batch.replayed_commits).append(commits)
                case Kind.SAMPLES:
                    samples = BucketSamples.unpack(payload)
                    for raw, record in zip(samples.raws, samples.records, strict=True):
                        size += len(raw.value or b"")
                        kept = record if size <= MAX_UNPACKED_BYTES else None
                        batches[record.topic].samples.append(ReadRecord(raw, kept))
                case Kind.PLAN_COVERS:
                    batches[topic].plans.append(PlanCovers.unpack(payload))
                case _:
                    batches[topic].packed_records.append(payload)
        for batch in batches.values():
            batch.plans.sort(key=lambda plan: (plan.at, plan.group), reverse=True)
        return batches
