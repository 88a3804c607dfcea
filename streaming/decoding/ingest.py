"""Kafka records of one Arrow batch to rows for the operators: packed, counted or rejected.

Of the commits of a (group, topic, partition) in one bucket of event time only the last is passed
on, all commits of a bucket's topics in one row, and the plain samples of a thousand records in
another. So the work of the state operator depends on the number of groups and partitions, not on
how often groups commit. Buckets keep the commits and samples of a batch in their order in time; a
sample may be evaluated with a commit up to a bucket older than the newest before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from levelwind.assignors.protocol.canonical_json import LATEST_MS
from levelwind.assignors.protocol.records import (
    BrokerRecord,
    GroupRecord,
    GroupShard,
    MemberAssignment,
    MemberShard,
    OffsetsRecord,
    PlannerRecord,
    PlanShard,
    Rejection,
    ReplayRecord,
    Tombstone,
    TopicRecord,
    decode,
    partition_key,
)
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC
from levelwind.streaming.decoding import offset_commits, offsets_topic
from levelwind.streaming.decoding.commit_rows import PackableCommits, by_bucket, last_in_bucket
from levelwind.streaming.messages.buckets import DEFAULT_BUCKETS, group_key, topic_key
from levelwind.streaming.messages.rows import (
    NO_REPLAY,
    PASS_THROUGH_PREFIX,
    Kind,
    PlanCovers,
    Raw,
)
from levelwind.streaming.messages.topic_columns import BucketSamples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from levelwind.assignors.protocol.records import Record
    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.streaming.rules.event_time import Int64


BUCKET_MS = 250
"""The length of a bucket of event time."""
SLICE_RECORDS = 1024
"""Records of levelwind's topics that are decoded before the samples among them are packed; a row
has at most as many samples.

A decoded sample takes up to 15 kB, and a backlog brings 100,000 of them in one batch of Arrow's."""
MALFORMED_RECORD = "malformed levelwind record"
REASONS = (*offsets_topic.REASONS, MALFORMED_RECORD)
REPLAYABLE_KINDS: tuple[TopicKind, ...] = ("metadata", "assignments")
PUBLISHED_KINDS: tuple[TopicKind, ...] = ("lag", "triggers")
COUNTED_KINDS = ("broker", "planner", "plan_shard")
NAMELESS_GROUP = "group without a name"
"""Brokers accept commits of a group without a name, but no client can ask for its lag, and no
levelwind record can name the group."""
SKIPPED = (*offsets_topic.SKIPPED.values(), *COUNTED_KINDS, NAMELESS_GROUP)


@dataclass(slots=True)
class PackedRows:
    """The rows of one batch, as columns."""

    state_key: list[str] = field(default_factory=list)
    subject: list[str] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    payload: list[bytes] = field(default_factory=list)
    reason: list[str | None] = field(default_factory=list)
    n: list[int] = field(default_factory=list)
    buckets: int = DEFAULT_BUCKETS
    """The number of buckets that the topics and the groups are in; no column."""
    followed: int = 0
    """Records of plans and of who follows them; no column."""

    def add(
        self,
        state_key: str,
        kind: Kind,
        payload: bytes,
        *,
        subject: str = "",
        reason: str | None = None,
        n: int = 0,
    ) -> None:
        """Append a row."""
        self.state_key.append(state_key)
        self.subject.append(subject)
        self.kind.append(kind)
        self.payload.append(payload)
        self.reason.append(reason)
        self.n.append(n)

    def add_count(self, reason: str, n: int) -> None:
        """Append a row that only counts records."""
        self.add(PASS_THROUGH_PREFIX, Kind.SKIPPED, b"", reason=reason, n=n)

    def add_for_group(self, group: str, kind: Kind, payload: bytes) -> None:
        """Append a row for a group."""
        self.add(group_key(group, self.buckets), kind, payload, subject=group)

    def add_for_topic(self, topic: str, kind: Kind, payload: bytes) -> None:
        """Append a row for a topic."""
        self.add(topic_key(topic, self.buckets), kind, payload, subject=topic)

    def extend(self, other: PackedRows) -> None:
        """Append the rows of another."""
        self.state_key += other.state_key
        self.subject += other.subject
        self.kind += other.kind
        self.payload += other.payload
        self.reason += other.reason
        self.n += other.n


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Kafka records in columns."""

    topic: pa.Array
    partition: Int64
    offset: Int64
    timestamp: Int64
    """Milliseconds since the epoch, from 0 to `LATEST_MS`; see `log_times`."""
    key: pa.Array
    value: pa.Array

    @classmethod
    def of(cls, raw: Raw) -> RecordColumns:
        """One record as columns."""
        return cls(
            topic=pa.array([raw.topic], pa.string()),
            partition=np.array([raw.partition], np.int64),
            offset=np.array([raw.offset], np.int64),
            timestamp=log_times(np.array([raw.timestamp], np.int64)),
            key=pa.array([raw.key], pa.binary()),
            value=pa.array([raw.value], pa.binary()),
        )

    def raws(self) -> Iterator[Raw]:
        """All records, in their order."""
        columns = zip(
            self.topic.to_pylist(),
            self.partition.tolist(),
            self.offset.tolist(),
            self.timestamp.tolist(),
            self.key.to_pylist(),
            self.value.to_pylist(),
            strict=True,
        )
        for topic, partition, offset, timestamp, key, value in columns:
            yield Raw(
                topic=topic,
                partition=partition,
                offset=offset,
                timestamp=timestamp,
                key=key,
                value=value,
            )

    def raw(self, row: int, reason: str = "") -> Raw:
        """One record."""
        (raw,) = self.take(np.array([row])).raws()
        return replace(raw, reason=reason)

    def take(self, rows: Int64) -> RecordColumns:
        """Some records, in their order."""
        if rows.size == self.offset.size:
            return self
        return RecordColumns(
            topic=self.topic.take(rows),
            partition=self.partition[rows],
            offset=self.offset[rows],
            timestamp=self.timestamp[rows],
            key=self.key.take(rows),
            value=self.value.take(rows),
        )


def read_batch(batch: pa.RecordBatch) -> RecordColumns:
    """The columns of a batch, which has them under the names of the fields."""
    ints = {
        name: np.asarray(batch.column(name), dtype=np.int64)
        for name in ("partition", "offset", "timestamp")
    }
    ints["timestamp"] = log_times(ints["timestamp"])
    return RecordColumns(**{name: batch.column(name) for name in ("topic", "key", "value")}, **ints)


def log_times(timestamp: Int64) -> Int64:
    """Times of records, each the nearest one that the fields of records take.

    A producer writes any number. A trigger that had such a time would be rejected by its readers.
    """
    return np.clip(timestamp, 0, LATEST_MS)


def pack_batch(
    records: RecordColumns, topics: Topics, buckets: int = DEFAULT_BUCKETS
) -> PackedRows:
    """The rows of one batch, whose groups are in so many buckets."""
    packed = PackedRows(buckets=buckets)
    names = records.topic.dictionary_encode()
    topic_index = np.asarray(names.indices, dtype=np.int64)
    for index, name in enumerate(names.dictionary.to_pylist()):
        rows = np.flatnonzero(topic_index == index)
        if name in {OFFSETS_TOPIC, topics.commits}:
            _pack_offsets(packed, records.take(rows))
        elif (kind := topics.kind(name)) is not None:
            packed.followed += rows.size if kind == "assignments" else 0
            for first in range(0, rows.size, SLICE_RECORDS):
                some = records.take(rows[first : first + SLICE_RECORDS])
                _pack_records(packed, some.raws(), kind, topics)
    return packed


def _pack_records(packed: PackedRows, raws: Iterable[Raw], kind: TopicKind, topics: Topics) -> None:
    """Pack records of one of levelwind's topics, the plain samples of a bucket in one row."""
    samples: dict[str, tuple[list[Raw], list[OffsetsRecord]]] = {}
    for raw in raws:
        record = decode(kind, raw.key, raw.value)
        if isinstance(record, OffsetsRecord) and BucketSamples.fits(raw, record):
            state_key = topic_key(record.topic, packed.buckets)
            of_bucket = samples.setdefault(state_key, ([], []))
            of_bucket[0].append(raw)
            of_bucket[1].append(record)
        else:
            _pack_record(packed, raw, record, topics)
    for state_key, (of_samples, records) in samples.items():
        row = BucketSamples(raws=of_samples, records=records)
        packed.add(state_key, Kind.SAMPLES, row.pack())


def unreadable(raw: Raw, topics: Topics) -> str | None:
    """The reason why this version cannot decode a record; None if it can."""
    packed = PackedRows()
    _pack_replay(packed, raw, topics)
    rejected = [
        Raw.unpack(payload)
        for kind, payload in _kinds_and_payloads(packed)
        if kind == Kind.REJECTED
    ]
    return rejected[0].reason if rejected else None


def _kinds_and_payloads(packed: PackedRows) -> Iterator[tuple[int, bytes]]:
    return zip(packed.kind, packed.payload, strict=True)


def _pack_replay(packed: PackedRows, raw: Raw, topics: Topics) -> None:
    """Pack a replayed record; the replay is finished at once if no operator gets a row from it."""
    replayed = PackedRows(buckets=packed.buckets)
    if raw.topic in {OFFSETS_TOPIC, topics.commits}:
        _pack_offsets(replayed, RecordColumns.of(raw), raw.until)
    elif (kind := topics.kind(raw.topic)) in REPLAYABLE_KINDS:
        _pack_record(replayed, raw, decode(kind, raw.key, raw.value), topics)
    elif kind in PUBLISHED_KINDS:
        _pack_key_to_verify(packed, raw, kind)
        return
    else:
        _reject(replayed, raw, MALFORMED_RECORD, detail=f"the pipeline does not read {raw.topic}")
    if all(kind == Kind.SKIPPED for kind in replayed.kind):
        packed.add(f"{PASS_THROUGH_PREFIX}{raw.partition}", Kind.REPLAY_DONE, raw.pack())
    packed.extend(replayed)


def _pack_key_to_verify(packed: PackedRows, raw: Raw, kind: TopicKind) -> None:
    """Pack the key of a record that an earlier checkpoint published, for its group to verify."""
    key = decode(kind, raw.key, None)
    if raw.key is None or isinstance(key, Rejection):
        _reject(packed, raw, MALFORMED_RECORD, detail="levelwind publishes no record with this key")
    else:
        group = str(partition_key(key.key))
        packed.add_for_group(group, Kind.VERIFY_KEY, raw.key)


def _pack_offsets(packed: PackedRows, records: RecordColumns, until: int = NO_REPLAY) -> None:
    decoded = offsets_topic.decode(records.key, records.value)
    for row, reason in decoded.rejected.items():
        _reject(packed, records.raw(row, reason), reason)
    for kind, count in decoded.skipped.items():
        packed.add_count(kind, count)
    for row, group in decoded.memberships.items():
        raw = replace(records.raw(row), until=until)
        packed.add_for_group(group, Kind.MEMBERSHIP, raw.pack())
        covers = PlanCovers(group=group, at=raw.timestamp).pack()
        for topic in sorted(decoded.read_topics.get(row, ())):
            packed.add_for_topic(topic, Kind.PLAN_COVERS, covers)
    if decoded.commits.row.size:
        _pack_commits(packed, records, decoded.commits, until)


def _pack_commits(
    packed: PackedRows, records: RecordColumns, commits: offsets_topic.DecodedCommits, until: int
) -> None:
    tombstone = commits.offset == offset_commits.TOMBSTONE
    at = np.where(tombstone | (commits.at < 0), records.timestamp[commits.row], commits.at)
    order = by_bucket(commits.topics, packed.buckets)
    topic = order.rank[commits.topic]
    kept = last_in_bucket(topic=topic, key=commits.key, bucket=at // BUCKET_MS)
    # A name that is no UTF-8 is empty, too: several groups may be.
    if numbers := [number for number, name in enumerate(commits.groups) if not name]:
        nameless = np.isin(commits.group, numbers)
        if count := int(np.count_nonzero(nameless)):
            packed.add_count(NAMELESS_GROUP, count)
            kept = kept[~nameless[kept]]
    if not kept.size:
        return
    source, position = (column[commits.row] for column in (records.partition, records.offset))
    columns = PackableCommits(commits, order.topics, topic, at, source, position)
    packable = replace(columns.packable(kept), until=until)
    for state_key, of_bucket in packable.divided(packed.buckets):
        packed.add(state_key, Kind.COMMITS, of_bucket.pack())


def _pack_record(
    packed: PackedRows, raw: Raw, record: Record | Tombstone | Rejection, topics: Topics
) -> None:
    if isinstance(record, Rejection):
        _reject(packed, raw, MALFORMED_RECORD, detail=record.reason)
        return
    if isinstance(record, ReplayRecord):
        _pack_replay(packed, _replayed_record(record), topics)
        return
    if isinstance(record, GroupRecord | GroupShard):
        for topic in record.topics:
            covers = PlanCovers(group=record.group, at=raw.timestamp).pack()
            packed.add_for_topic(topic, Kind.PLAN_COVERS, covers)
    state_key, subject = _state_key(record, packed.buckets)
    if state_key is None:
        record_kind = record.key[0] if isinstance(record, Tombstone) else record.KIND
        detail = f"the pipeline does not read {record_kind} records"
        _reject(packed, raw, MALFORMED_RECORD, detail=detail)
    elif state_key in COUNTED_KINDS:
        packed.add_count(state_key, 1)
    else:
        packed.add(state_key, Kind.RECORD, raw.pack(), subject=subject)


def _state_key(record: Record | Tombstone, buckets: int) -> tuple[str | None, str]:
    """The state key of a record, and the topic or group that it is about, if any.

    The key is a name in `COUNTED_KINDS` if the record is only counted; None if the pipeline does
    not read records of its kind.
    """
    match record:
        case Tombstone(key=(("topic" | "offsets"), name)):
            return topic_key(str(name), buckets), str(name)
        case Tombstone(key=(("g" | "gs" | "m" | "ms"), name, *_)):
            return group_key(str(name), buckets), str(name)
        case Tombstone(key=(("broker" | "planner") as kind, *_)):
            return str(kind), ""
        case Tombstone(key=("p", *_)):
            return PlanShard.KIND, ""
        case TopicRecord(topic=topic) | OffsetsRecord(topic=topic):
            return topic_key(topic, buckets), topic
        case (
            GroupRecord(group=group)
            | GroupShard(group=group)
            | MemberAssignment(group=group)
            | MemberShard(group=group)
        ):
            return group_key(group, buckets), group
        case BrokerRecord() | PlannerRecord() | PlanShard():
            return record.KIND, ""
        case _:
            return None, ""


def _replayed_record(record: ReplayRecord) -> Raw:
    return Raw(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=min(record.timestamp, LATEST_MS),
        key=record.raw_key,
        value=record.raw_value,
        until=record.until,
    )


def _reject(packed: PackedRows, raw: Raw, reason: str, *, detail: str = "") -> None:
    whole = f"{reason}: {detail}" if detail else reason
    rejected = replace(raw, reason=whole, until=NO_REPLAY)
    packed.add(
        f"{PASS_THROUGH_PREFIX}{raw.partition}", Kind.REJECTED, rejected.pack(), reason=reason, n=1
    )
