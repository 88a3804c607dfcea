"""Kafka records of one Arrow batch to rows for the operators: packed, counted or rejected.

Of the commits of a (group, topic, partition) in one bucket of event time only the last is passed
on, all commits of a topic in one row. So the work of the state operator depends on the number of
groups and partitions, not on how often groups commit. Buckets keep the commits and samples of a
batch in their order in time; a sample may be evaluated with a commit up to a bucket older than the
newest before it.
"""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

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
from levelwind.streaming.messages.buckets import DEFAULT_BUCKETS, group_key, topic_key
from levelwind.streaming.messages.rows import (
    NO_REPLAY,
    PASS_THROUGH_PREFIX,
    Kind,
    PlanCovers,
    Raw,
    TopicCommits,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from levelwind.assignors.protocol.records import Record
    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.streaming.rules.event_time import Int64


BUCKET_MS = 250
"""The length of a bucket of event time."""
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
    key: pa.Array
    value: pa.Array

    @classmethod
    def of(cls, raw: Raw) -> RecordColumns:
        """One record as columns."""
        return cls(
            topic=pa.array([raw.topic], pa.string()),
            partition=np.array([raw.partition], np.int64),
            offset=np.array([raw.offset], np.int64),
            timestamp=np.array([raw.timestamp], np.int64),
            key=pa.array([raw.key], pa.binary()),
            value=pa.array([raw.value], pa.binary()),
        )

    def raw(self, row: int, reason: str = "") -> Raw:
        """One record."""
        return Raw(
            topic=self.topic[row].as_py(),
            partition=int(self.partition[row]),
            offset=int(self.offset[row]),
            timestamp=max(int(self.timestamp[row]), 0),
            key=self.key[row].as_py(),
            value=self.value[row].as_py(),
            reason=reason,
        )

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


def read_batch(batch: pa.RecordBatch, names: Mapping[str, Any]) -> RecordColumns:
    """The columns of a batch; `names` holds the batch's column name of each field."""
    ints = {
        name: np.asarray(batch.column(names[name]), dtype=np.int64)
        for name in ("partition", "offset", "timestamp")
    }
    return RecordColumns(
        **{name: batch.column(names[name]) for name in ("topic", "key", "value")}, **ints
    )


def pack_batch(
    records: RecordColumns, topics: Topics, buckets: int = DEFAULT_BUCKETS
) -> PackedRows:
    """The rows of one batch, whose groups are in so many buckets."""
    packed = PackedRows(buckets=buckets)
    names = records.topic.dictionary_encode()
    topic_index = np.asarray(names.indices, dtype=np.int64)
    for index, name in enumerate(names.dictionary.to_pylist()):
        of_topic = records.take(np.flatnonzero(topic_index == index))
        if name in {OFFSETS_TOPIC, topics.commits}:
            _pack_offsets(packed, of_topic)
        elif (kind := topics.kind(name)) is not None:
            packed.followed += of_topic.offset.size if kind == "assignments" else 0
            for row in range(of_topic.offset.size):
                _pack_record(packed, of_topic.raw(row), kind, topics)
    return packed


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
        _pack_record(replayed, raw, kind, topics)
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
    kind = Kind.COMMITS if until == NO_REPLAY else Kind.REPLAYED_COMMIT
    tombstone = commits.offset == offset_commits.TOMBSTONE
    at = np.where(
        tombstone | (commits.at < 0), np.maximum(records.timestamp[commits.row], 0), commits.at
    )
    kept = last_in_bucket(topic=commits.topic, key=commits.key, bucket=at // BUCKET_MS)
    if "" in commits.groups:
        nameless = commits.group == commits.groups.index("")
        if count := int(np.count_nonzero(nameless)):
            packed.add_count(NAMELESS_GROUP, count)
            kept = kept[~nameless[kept]]
    topic_ids = [base64.urlsafe_b64encode(name).decode().rstrip("=") for name in commits.topic_ids]
    topic, rows = commits.topic[kept], commits.row[kept]
    bounds = np.flatnonzero(np.diff(topic, prepend=-1, append=-1)).tolist()
    columns = {
        "partition": commits.partition[kept],
        "offset": commits.offset[kept],
        "at": at[kept],
        "source": records.partition[rows],
        "position": records.offset[rows],
    }
    groups, ids = (
        distinct_by_topic(topic, numbers[kept]) for numbers in (commits.group, commits.topic_id)
    )
    for first, last in itertools.pairwise(bounds):
        number = int(topic[first])
        of_topic = ids.names[number]
        without_id = int(of_topic[0] < 0)  # -1 sorts first
        payload = TopicCommits(
            groups=tuple([commits.groups[index] for index in groups.names[number]]),
            topic_ids=tuple([topic_ids[index] for index in of_topic[without_id:]]),
            group=groups.number[first:last],
            topic_id=ids.number[first:last] - without_id,
            until=until,
            **{name: column[first:last] for name, column in columns.items()},
        )
        packed.add_for_topic(commits.topics[number], kind, payload.pack())


class DistinctByTopic(NamedTuple):
    """Numbers of rows, as indices of those that the rows of the same topic have."""

    number: Int64
    """By row."""
    names: Mapping[int, list[int]]
    """By topic, the numbers that its rows have, ascending."""


def distinct_by_topic(topic: Int64, number: Int64) -> DistinctByTopic:
    """The distinct numbers of each topic; numbers are at least -1, and topics ascend."""
    if not topic.size:
        return DistinctByTopic(number, {})
    width = int(number.max()) + 2
    pairs, index = np.unique(topic * width + number + 1, return_inverse=True)
    of_pair = pairs // width
    bounds = np.flatnonzero(np.diff(of_pair, prepend=-1, append=-1)).tolist()
    numbers, topics = (pairs % width - 1).tolist(), of_pair[bounds[:-1]].tolist()
    return DistinctByTopic(
        index - np.searchsorted(of_pair, topic),
        {
            name: numbers[first:last]
            for name, (first, last) in zip(topics, itertools.pairwise(bounds), strict=True)
        },
    )


def last_in_bucket(*, topic: Int64, key: Int64, bucket: Int64) -> Int64:
    """Rows of the commits that are the last of their key and bucket, by topic, key and bucket.

    The input is in log order.
    """
    order = np.lexsort((bucket, key, topic))  # stable: log order within
    last = np.ones(order.size, np.bool_)
    same_key = key[order][1:] == key[order][:-1]
    last[:-1] = ~(same_key & (bucket[order][1:] == bucket[order][:-1]))
    return order[last]


def _pack_record(packed: PackedRows, raw: Raw, kind: TopicKind, topics: Topics) -> None:
    record = decode(kind, raw.key, raw.value)
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
        timestamp=record.timestamp,
        key=record.raw_key,
        value=record.raw_value,
        until=record.until,
    )


def _reject(packed: PackedRows, raw: Raw, reason: str, *, detail: str = "") -> None:
    rejected = Raw(
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        timestamp=raw.timestamp,
        key=raw.key,
        value=raw.value,
        reason=f"{reason}: {detail}" if detail else reason,
    )
    packed.add(
        f"{PASS_THROUGH_PREFIX}{raw.partition}", Kind.REJECTED, rejected.pack(), reason=reason, n=1
    )
