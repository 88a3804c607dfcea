"""What the pipeline publishes, as Kafka records with their place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from assignors.protocol.records import (
    DeadLetter,
    LagRecord,
    Tombstone,
    TriggerRecord,
    encode,
    encode_key,
)
from assignors.protocol.topics import partition_for
from streaming.messages.lag_json import (
    field,
    joined,
    text,
)
from streaming.messages.rows import (
    Kind,
    LagRow,
    Raw,
    SinkRow,
)

if TYPE_CHECKING:
    from assignors.protocol.topics import Topics
    from streaming.group.state import PartitionOwners
    from streaming.group.update import UpdateResult

MAX_KEPT = 256 * 1024
"""Of a dead record's key and value, so many bytes each are kept: the letter must fit a message."""
RACKS = field("racks", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTopics:
    """The topics that are written, and how many partitions each has."""

    topics: Topics
    lag: int
    triggers: int
    dead_letters: int


def group_records(group: str, result: UpdateResult, outputs: OutputTopics) -> list[SinkRow]:
    """A group's records: lag, the end of lag, and triggers in the order of their events."""
    topics = outputs.topics
    lag_at, triggers_at = partition_for(group, outputs.lag), partition_for(group, outputs.triggers)
    records = [
        SinkRow(topics.lag, *_lag(group, row, owners), lag_at) for row, owners in result.lags
    ]
    records += [
        SinkRow(topics.lag, encode_key(("lag", group, topic)), None, lag_at)
        for topic in result.ended_topics
    ]
    records += [
        SinkRow(topics.triggers, *_trigger(trigger), triggers_at) for trigger in result.triggers
    ]
    records += [_settled(raw, outputs) for raw in result.finished_replays]
    return records


def pass_through_record(kind: int, payload: bytes, outputs: OutputTopics) -> SinkRow:
    """What neither a topic nor a group keeps: a dead letter, or the end of one."""
    raw = Raw.unpack(payload)
    return _settled(raw, outputs) if kind == Kind.REPLAY_DONE else _dead_letter(raw, outputs)


def _settled(raw: Raw, outputs: OutputTopics) -> SinkRow:
    key = encode_key((raw.topic, raw.partition, raw.offset))
    return SinkRow(
        outputs.topics.dead_letters, key, None, partition_for(key.decode(), outputs.dead_letters)
    )


def _trigger(trigger: TriggerRecord | Tombstone) -> tuple[bytes, bytes | None]:
    return (encode_key(trigger.key), None) if isinstance(trigger, Tombstone) else encode(trigger)


def _lag(group: str, row: LagRow, owners: PartitionOwners) -> tuple[bytes, bytes]:
    """The record's key and value: what the topic knew, and beside it who owns what."""
    fields = [*row.fields, field("v", str(LagRecord.V))]
    if owners.members:
        fields.append(field("members", text([name for name, _ in owners.members])))
        fields.append(field("owner", text(owners.owner.tolist())))
        racks = next(said.removeprefix(RACKS) for said in row.fields if said.startswith(RACKS))
        local = _local(_racks(racks), owners)
        if any(one is not None for one in local):
            fields.append(field("local", text(local)))
    return encode_key(("lag", group, row.topic)), joined(fields).encode()


def _local(racks: tuple[frozenset[str], ...], owners: PartitionOwners) -> list[bool | None]:
    """By partition, whether its owner's rack holds a replica; None where either is not known."""
    names = [rack for _, rack in owners.members]
    of = [names[number] if number >= 0 else None for number in owners.owner.tolist()]
    return [
        rack in replicas if rack is not None and replicas else None
        for rack, replicas in zip(of, racks, strict=True)
    ]


@lru_cache(maxsize=256)
def _racks(written: str) -> tuple[frozenset[str], ...]:
    """A topic's replica racks: read once for all its groups."""
    return tuple(map(frozenset, json.loads(written)))


def _dead_letter(raw: Raw, outputs: OutputTopics) -> SinkRow:
    cut = any(part is not None and len(part) > MAX_KEPT for part in (raw.key, raw.value))
    letter = DeadLetter(
        at=raw.timestamp,
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        reason=f"{raw.reason} (cut to {MAX_KEPT} bytes)" if cut else raw.reason,
        raw_key=None if raw.key is None else raw.key[:MAX_KEPT],
        raw_value=None if raw.value is None else raw.value[:MAX_KEPT],
    )
    key, value = encode(letter)
    return SinkRow(
        outputs.topics.dead_letters, key, value, partition_for(key.decode(), outputs.dead_letters)
    )
