"""The pipeline without Spark: the same pure functions, with states as bytes between batches."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from levelwind.assignors.protocol.records import (
    LagRecord,
    Record,
    Rejection,
    SpeedRecord,
    Tombstone,
    decode,
    encode,
    encode_key,
)
from levelwind.assignors.protocol.topics import TopicKind, Topics
from levelwind.streaming import output
from levelwind.streaming.bucket import update as bucket_update
from levelwind.streaming.bucket.group_columns import from_columns
from levelwind.streaming.bucket.state import BucketState, unpack_groups
from levelwind.streaming.decoding import ingest
from levelwind.streaming.group.state import GroupState
from levelwind.streaming.messages.buckets import (
    DEFAULT_BUCKETS,
    GROUP_KEY_PREFIX,
    TOPIC_KEY_PREFIX,
    group_key,
)
from levelwind.streaming.messages.rows import Kind, Row, SinkRow
from levelwind.streaming.output import OutputTopics
from levelwind.streaming.rules.skew import SkewRule
from levelwind.streaming.topic import joint_update
from levelwind.streaming.topic.batch import TopicBatch
from levelwind.streaming.topic.state import LagRule
from levelwind_testing.pipeline.offsets_reference_codec import commit_key, commit_value

TOPICS = Topics()
OUTPUTS = OutputTopics(
    topics=TOPICS,
    lag=4,
    triggers=4,
    dead_letters=4,
    most_bytes=dict.fromkeys((TOPICS.lag, TOPICS.triggers, TOPICS.dead_letters), 10**6),
)
OUTPUT_KINDS: Mapping[str, TopicKind] = {
    TOPICS.lag: "lag",
    TOPICS.triggers: "triggers",
    TOPICS.dead_letters: "dead_letters",
}
"""The kind of records of each topic that the pipeline publishes to."""
OFFSETS = "__consumer_offsets"
GroupEvent = tuple[str, int, bytes]
"""Group, kind and payload of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    topic: str
    offset: int
    at: int
    key: bytes | None
    value: bytes | None
    partition: int = 0


@dataclass(slots=True)
class Log:
    """Messages in the order of their writing, each with the next offset of its topic."""

    messages: list[Message] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    """Number of messages, by topic."""

    def add(self, topic: str, at: int, key: bytes | None, value: bytes | None) -> None:
        offset = self.written.get(topic, 0)
        self.written[topic] = offset + 1
        self.messages.append(Message(topic=topic, offset=offset, at=at, key=key, value=value))

    def commit(
        self,
        group: str,
        topic: str,
        partition: int,
        offset: int,
        at: int,
        topic_id: bytes | None = None,
    ) -> None:
        tags = () if topic_id is None else ((0, topic_id),)
        self.add(
            OFFSETS, at, commit_key(group, topic, partition), commit_value(offset, at, tags=tags)
        )

    def forget(self, group: str, topic: str, partition: int, at: int) -> None:
        self.add(OFFSETS, at, commit_key(group, topic, partition), None)

    def add_record(self, topic: str, at: int, record: Record | Tombstone) -> None:
        key, value = (
            (encode_key(record.key), None) if isinstance(record, Tombstone) else encode(record)
        )
        self.add(topic, at, key, value)


@dataclass(slots=True)
class LocalPipeline:
    lag: LagRule = field(default_factory=LagRule)
    skew: SkewRule = field(default_factory=SkewRule)
    topics: dict[str, bytes] = field(default_factory=dict)
    groups: dict[str, bytes] = field(default_factory=dict)
    """Values of the buckets' states, each under its bucket's state key, "/" and its own name."""
    offsets_read: dict[int, int] | None = None
    """Offset up to which each partition of the offsets topic is read; None: not tracked."""
    skipped: Counter[str | None] = field(default_factory=Counter)
    """Number of records without any effect, by kind."""
    at_stake: dict[str, bool] = field(default_factory=dict)
    """By state key of a bucket, whether skew was at stake in its last batch."""

    def group_state(self, group: str) -> GroupState:
        """The state of a group after the last batch."""
        key = group_key(group, DEFAULT_BUCKETS)
        bucket = BucketState.unpack(self.groups[f"{key}/samples"], self.groups[f"{key}/members"])
        packed = unpack_groups(self.groups[f"{key}/groups"])[group]
        return from_columns(bucket, bucket.groups.index(group), packed)

    def run(self, batch: Iterable[Message]) -> list[SinkRow]:
        """Process one batch; return the records that it publishes."""
        messages = list(batch)
        if self.offsets_read is not None:
            self.offsets_read |= {m.partition: m.offset + 1 for m in messages if m.topic == OFFSETS}
        records = ingest.RecordColumns(
            topic=pa.array([m.topic for m in messages], pa.string()),
            partition=_ints([m.partition for m in messages]),
            offset=_ints([m.offset for m in messages]),
            timestamp=ingest.log_times(_ints([m.at for m in messages])),
            key=pa.array([m.key for m in messages], pa.binary()),
            value=pa.array([m.value for m in messages], pa.binary()),
        )
        packed = ingest.pack_batch(records, TOPICS)
        of_topics: list[tuple[str, int, bytes]] = []
        by_group: dict[str, list[GroupEvent]] = defaultdict(list)
        columns = (packed.state_key, packed.subject, packed.kind, packed.payload)
        for state_key, subject, kind, payload, reason, n in zip(
            *columns, packed.reason, packed.n, strict=True
        ):
            if kind == Kind.SKIPPED:
                self.skipped[reason] += n
            elif state_key.startswith(TOPIC_KEY_PREFIX):
                of_topics.append((subject, kind, payload))
            else:
                by_group[state_key].append((subject, kind, payload))
        for row in self.of_topics(TopicBatch.by_topic(of_topics)):
            by_group[row.state_key].append((row.subject, row.kind, row.payload))
        return [
            row
            for state_key, events in by_group.items()
            for row in self._of_bucket(state_key, events)
        ]

    def of_topics(self, batches: Mapping[str, TopicBatch]) -> Iterable[Row]:
        """Apply the batch of each topic; return the rows for groups."""
        return joint_update.advance_all(batches, self, self.lag, self.offsets_read)

    def load_all(self, topics: Iterable[str]) -> list[bytes | None]:
        """The packed states of some topics before a batch."""
        return [self.topics.get(topic) for topic in topics]

    def names(self) -> list[str]:
        """The names of the topics that have a state."""
        return list(self.topics)

    def store_all(self, states: Mapping[str, bytes | None]) -> None:
        """Keep the packed states of some topics after a batch."""
        for topic, value in states.items():
            if value is None:
                self.topics.pop(topic, None)
            else:
                self.topics[topic] = value

    def _of_bucket(self, state_key: str, rows: list[GroupEvent]) -> list[SinkRow]:
        if not state_key.startswith(GROUP_KEY_PREFIX):
            passed = [
                output.pass_through_record(kind, payload, OUTPUTS) for _, kind, payload in rows
            ]
            for row in passed:
                decoded(row)
            return passed
        result = bucket_update.advance(
            lambda name: self.groups.get(f"{state_key}/{name}"),
            rows,
            self.skew,
            {TOPICS.assignments: "assignments"},
        )
        self.at_stake[state_key] = result.at_stake
        for name, value in result.values.items():
            if value is not None:
                self.groups[f"{state_key}/{name}"] = value
            else:
                self.groups.pop(f"{state_key}/{name}", None)
        published = list(output.bucket_records(result, OUTPUTS))
        for row in published:
            record = decoded(row)
            # Lag is written in pieces: together they are what the record's own class writes.
            if row.topic == TOPICS.lag and row.value is not None:
                assert isinstance(record, LagRecord | SpeedRecord)
                assert encode(record) == (row.key, row.value)
        return published


def decoded(row: SinkRow) -> Record | Tombstone:
    """What readers take a published record for; it is one that they do not reject."""
    record = decode(OUTPUT_KINDS[row.topic], row.key, row.value)
    assert not isinstance(record, Rejection), (record, row)
    return record


def _ints(numbers: list[int]) -> "pa.Array":
    return pa.array(numbers, pa.int64()).to_numpy()
