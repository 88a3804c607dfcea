"""Output in messages that its topics take: records of groups that are too large are cut as text.

The numbers of the shards that were written are kept, so that tombstones follow for those that a
later record does not need. Shards come before their head and their tombstones behind it, in one
partition: whoever has read a head has read what it names.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, cast

from levelwind.assignors.protocol import canonical_json
from levelwind.assignors.protocol.records import (
    CUT_AS_TEXT,
    KINDS,
    TextShard,
    encode,
    encode_key,
    partitions_for,
)
from levelwind.assignors.protocol.records.cut import head_key, shard_keys
from levelwind.assignors.protocol.records.cutting import cut_text
from levelwind.streaming.messages.rows import SinkRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from levelwind.assignors.protocol.records import Key
    from levelwind.streaming.output import OutputTopics

SHARDS = "shards"
"""Name of the value of a bucket's state that holds what was cut; mostly there is none."""

ENVELOPE_BYTES = 128
"""Bytes of a batch of one record around its key and value; there are at most 97."""


class SizedOutput:
    """The records of a bucket's groups, each in messages that its topic takes."""

    def __init__(self, outputs: OutputTopics, packed: bytes | None = None) -> None:
        """Continue with what was cut before.

        Args:
            outputs: the topics, and what they take.
            packed: what `pack` gave after the last batch; None: nothing was cut.
        """
        self._outputs = outputs
        self._shards: dict[str, int] = {} if packed is None else json.loads(packed)
        """Numbers of shards of the records that are cut, by key."""
        self.changed = False
        """Whether `pack` gives something else than before."""

    def pack(self) -> bytes | None:
        """What was cut; None: nothing is."""
        return json.dumps(self._shards, ensure_ascii=False).encode() if self._shards else None

    def rows(self, rows: Iterable[SinkRow]) -> Iterator[SinkRow]:
        """Cut the records that are too large, and end the shards that are not needed any more."""
        for row in rows:
            fits = len(row.key) + len(row.value or b"") <= self._outputs.most_bytes[row.topic]
            if fits and not self._shards:
                yield row
                continue
            key = row.key.decode()
            before, shards = self._shards.get(key, 0), 0
            if fits or row.value is None:
                yield row
            else:
                parts = self._cut(row, row.value)
                shards = max(len(parts) - 1, 0)
                yield from parts
            if shards != before:
                self._note(key, shards)
                yield from self._ended(row, range(shards, before))

    def unneeded(self, keys: Iterable[bytes]) -> Iterator[SinkRow]:
        """The tombstones of those of some records that are shards of nothing that was cut.

        Args:
            keys: keys of records that an earlier checkpoint published, after this batch's `rows`.
        """
        for raw in keys:
            key = _key(raw)
            for kind in CUT_AS_TEXT:
                known = KINDS[kind].get(str(key[0]))
                if known is None or known.name != TextShard.KIND:
                    continue
                if int(key[-1]) >= self._shards.get(encode_key(head_key(key)).decode(), 0):
                    (partition,) = partitions_for(kind, key, self._outputs.partitions(kind))
                    yield SinkRow(self._outputs.topics.name(kind), raw, None, partition)

    def _cut(self, row: SinkRow, value: bytes) -> list[SinkRow]:
        """The messages of a record that is too large; none where no message can have its key."""
        most_bytes = self._outputs.most_bytes[row.topic]
        written = [encode(part) for part in cut_text(_key(row.key), value, most_bytes)]
        if sum(map(len, written[-1])) <= most_bytes:
            return [row._replace(key=key, value=value) for key, value in written]
        sys.stderr.write(f"{row.topic} takes no message with the key {row.key!r}\n")
        return []

    def _note(self, key: str, shards: int) -> None:
        self.changed = True
        if shards:
            self._shards[key] = shards
        else:
            del self._shards[key]

    def _ended(self, row: SinkRow, numbers: Iterable[int]) -> list[SinkRow]:
        """The tombstones of some shards of a record."""
        keys = shard_keys(_key(row.key), numbers)
        return [row._replace(key=encode_key(key), value=None) for key in keys]


def _key(raw: bytes) -> Key:
    """The key of a record that was written, or whose key was decoded before."""
    return tuple(cast("list[str | int]", canonical_json.loads(raw)))
