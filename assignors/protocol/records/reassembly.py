"""Reassembly of the records that were cut into shards, for readers of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import (
    KINDS,
    CutRecord,
    GroupRecord,
    GroupShard,
    MemberAssignment,
    MemberShard,
    Rejection,
    TextShard,
    Tombstone,
    encode_key,
)
from levelwind.assignors.protocol.records.cut import Cut, head_key, shard_keys
from levelwind.assignors.protocol.records.shards import whole, whole_text

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Key, Record
    from levelwind.assignors.protocol.records.shards import Head, Shard
    from levelwind.assignors.protocol.topics import TopicKind


def names_record(raw: bytes | None, key: Key) -> bool:
    """Whether the bytes of a key name the record with a key, or a shard of it."""
    if raw is None:
        return False
    prefix = encode_key(shard_keys(key, (0,))[0]).removesuffix(b"0]")
    return raw == encode_key(key) or raw.startswith(prefix)


class Reassembly:
    """Whole records from those of a log, in its order: keeps the shards until their head comes."""

    def __init__(self) -> None:
        self._shards: dict[Key, dict[Key, Shard]] = {}
        """By the key of the head, then by their own."""
        self._texts: dict[Key, dict[Key, TextShard]] = {}
        """The same of records that were cut as text."""
        self.incomplete: dict[Key, Head] = {}
        """The newest head of each key, where shards of it are missing."""

    def take(self, record: Record | Tombstone) -> Record | Tombstone | None:
        """The record as if it had never been cut; None for a shard, and for an incomplete head.

        A reader that gets None keeps what it had.
        """
        match record:
            case GroupShard() | MemberShard():
                self._shards.setdefault(head_key(record.key), {})[record.key] = record
                return None
            case GroupRecord() | MemberAssignment():
                found = whole(record, self._shards.pop(record.key, {}))
                if found is None:
                    self.incomplete[record.key] = record
                else:
                    self.incomplete.pop(record.key, None)
                return found
            case Tombstone(key=("gs" | "ms", *_)):
                return None
            case Tombstone(key=("g" | "m", *_)):
                self._shards.pop(record.key, None)
                self.incomplete.pop(record.key, None)
                return record
            case _:
                return record

    def take_text(
        self, kind: TopicKind, record: Record | Tombstone | Rejection
    ) -> Record | Tombstone | Rejection | bytes | None:
        """The value of a record that was cut as text, when its head comes; None as in `take`.

        A record that was not cut, and one that its topic has no room for, is given back.
        """
        match record:
            case TextShard():
                self._texts.setdefault(record.head_key, {})[record.key] = record
                return None
            case CutRecord(shards=Cut() as cut):
                return whole_text(record.key, cut, self._texts.pop(record.key, {}))
            case Tombstone(key=key) if KINDS[kind][str(key[0])].name == TextShard.KIND:
                self._drop_text(key)
                return None
            case Rejection():
                return record
            case _:
                self._texts.pop(record.key, None)
                return record

    def _drop_text(self, shard: Key) -> None:
        """Drop a shard that ended without its head."""
        waiting = self._texts.get(head_key(shard), {})
        waiting.pop(shard, None)
        if not waiting:
            self._texts.pop(head_key(shard), None)
