"""Records that the pipeline publishes, each with the partition that it is written to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa

from levelwind.assignors.protocol.records import (
    DeadLetter,
    Tombstone,
    encode,
    encode_key,
    partitions_for,
)
from levelwind.assignors.protocol.topics import partition_for
from levelwind.streaming.messages import lag_json
from levelwind.streaming.messages.buckets import REMEMBERED_GROUPS
from levelwind.streaming.messages.lag_json import (
    local_field,
    owner_fields,
    owner_racks,
    record_text,
)
from levelwind.streaming.messages.own_fields import joined, texts_as_bytes
from levelwind.streaming.messages.rows import Kind, Raw, SinkRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from levelwind.assignors.protocol.records import Record
    from levelwind.assignors.protocol.topics import TopicKind, Topics
    from levelwind.streaming.bucket.update import BucketResult
    from levelwind.streaming.group.read_topics import OwnedLag
    from levelwind.streaming.group.update import UpdateResult

CUT_NOTE_BYTES = 32
"""Bytes that a dead letter's reason has more where the record was cut."""
MAX_KEPT_BYTES = 256 * 1024
"""Bytes that a dead letter keeps of a record's key and of its value, so that it fits a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopics:
    """The topics that the pipeline writes: their numbers of partitions, and what they take."""

    topics: Topics
    lag: int
    triggers: int
    dead_letters: int
    most_bytes: Mapping[str, int]
    """By topic, the most that key and value of a record may have together."""

    def partitions(self, kind: TopicKind) -> int:
        """The number of partitions of a topic that has records of groups."""
        return self.lag if kind == "lag" else self.triggers


def bucket_records(result: BucketResult, outputs: OutputTopics) -> Iterator[SinkRow]:
    """Records of a bucket's groups to publish; see `group_records`."""
    topic = outputs.topics.lag
    for groups, topics, values in result.lags:
        partitions = [_group_partition(group, outputs.lag) for group in groups]
        yield from map(SinkRow, repeat(topic), _lag_keys(groups, topics), values, partitions)
    for record in result.speeds:
        partition = _group_partition(str(record.key[1]), outputs.lag)
        yield SinkRow(topic, *_key_value(record), partition)
    for group, of_group in result.groups.items():
        yield from group_records(group, of_group, outputs)


def group_records(group: str, result: UpdateResult, outputs: OutputTopics) -> list[SinkRow]:
    """Records of a group to publish; triggers are in the order of their events."""
    topics = outputs.topics
    lag_partition = _group_partition(group, outputs.lag)
    triggers_partition = _group_partition(group, outputs.triggers)
    records = [
        SinkRow(topics.lag, *_lag_key_value(group, published), lag_partition)
        for published in result.lags
    ]
    records += [
        SinkRow(topics.lag, _lag_key(group, topic), None, lag_partition)
        for topic in result.ended_topics
    ]
    if result.speeds is not None:
        records.append(SinkRow(topics.lag, *_key_value(result.speeds), lag_partition))
    records += [
        SinkRow(topics.triggers, *_key_value(trigger), triggers_partition)
        for trigger in result.triggers
    ]
    records += [_dead_letter_tombstone(raw, outputs) for raw in result.finished_replays]
    return records


def pass_through_record(kind: int, payload: bytes, outputs: OutputTopics) -> SinkRow:
    """The record of a row that no state keeps: a dead letter, or the tombstone of one."""
    raw = Raw.unpack(payload)
    if kind == Kind.REPLAY_DONE:
        return _dead_letter_tombstone(raw, outputs)
    return _dead_letter(raw, outputs)


def _dead_letter_tombstone(raw: Raw, outputs: OutputTopics) -> SinkRow:
    key = (raw.topic, raw.partition, raw.offset)
    (partition,) = partitions_for("dead_letters", key, outputs.dead_letters)
    return SinkRow(outputs.topics.dead_letters, encode_key(key), None, partition)


def _key_value(record: Record | Tombstone) -> tuple[bytes, bytes | None]:
    return (encode_key(record.key), None) if isinstance(record, Tombstone) else encode(record)


_group_partition = lru_cache(maxsize=REMEMBERED_GROUPS)(partition_for)
_name_text = lru_cache(maxsize=REMEMBERED_GROUPS)(lag_json.text)


def _lag_key(group: str, topic: str) -> bytes:
    """The key of a lag record, as `encode_key` writes it, from texts that are remembered."""
    return f'["lag",{_name_text(group)},{_name_text(topic)}]'.encode()


def _lag_keys(groups: Sequence[str], topics: Sequence[str]) -> Sequence[bytes]:
    """The keys of lag records, each of a group and a topic."""
    of_groups, of_topics = (
        pa.array(map(_name_text, names), pa.string()) for names in (groups, topics)
    )
    return texts_as_bytes(joined('["lag",', of_groups, ",", of_topics, "]"), len(groups))


def _lag_key_value(group: str, published: OwnedLag) -> tuple[bytes, bytes]:
    """Key and value of a lag record: the fields that the topic's state wrote, and the owners."""
    row, owners, claim = published
    members = owner_fields(owners.members, owners.owner, owners.others, owners.non_readers)
    racks = owner_racks(owners.members)
    local = local_field(row.shared.racks, members, racks) if racks else ""
    key = _lag_key(group, row.topic)
    return key, record_text(row.shared, row.own, local, members, claim).encode()


def _dead_letter(raw: Raw, outputs: OutputTopics) -> SinkRow:
    topic = outputs.topics.dead_letters
    key, value = encode(_letter(raw, MAX_KEPT_BYTES))
    if (excess := len(key) + len(value) - outputs.most_bytes[topic]) > 0:
        kept = max(len(part or b"") for part in (raw.key, raw.value))
        # A byte takes more than one of Base64, which leaves room for the note.
        less = min(kept, MAX_KEPT_BYTES) - excess - CUT_NOTE_BYTES
        key, value = encode(_letter(raw, max(less, 0)))
    position = (raw.topic, raw.partition, raw.offset)
    (partition,) = partitions_for("dead_letters", position, outputs.dead_letters)
    return SinkRow(topic, key, value, partition)


def _letter(raw: Raw, kept: int) -> DeadLetter:
    """The dead letter of a record, with so many bytes of its key and of its value."""
    cut = any(part is not None and len(part) > kept for part in (raw.key, raw.value))
    return DeadLetter(
        at=raw.timestamp,
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        reason=f"{raw.reason} (cut to {kept} bytes)" if cut else raw.reason,
        raw_key=None if raw.key is None else raw.key[:kept],
        raw_value=None if raw.value is None else raw.value[:kept],
    )
