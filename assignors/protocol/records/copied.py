"""A record of any topic that is carried whole inside one of levelwind's own: replays.

The key of such a record is the log position of the original: topic, partition and offset. A replay,
a record that the pipeline is to read once more, also has `until`: the offset up to which its
partition holds no newer record of the same key. So the pipeline, which orders records by log
position, knows which state the replay may replace.
"""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypedDict

from levelwind.assignors.protocol.partition_ranges import WireError

if TYPE_CHECKING:
    from levelwind.assignors.protocol.json_fields import Fields
    from levelwind.assignors.protocol.records.metadata import Key


class OriginalFields(TypedDict):
    """The fields of `CopiedRecord`, as its constructor takes them."""

    topic: str
    partition: int
    offset: int
    raw_key: bytes | None
    raw_value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRecord:
    """The original's log position and bytes."""

    topic: str
    partition: int
    offset: int
    raw_key: bytes | None
    raw_value: bytes | None

    @property
    def key(self) -> Key:
        return (self.topic, self.partition, self.offset)

    def original_value(self) -> dict[str, object]:
        """The JSON fields of the original; its bytes are written as base64."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "key": _as_base64(self.raw_key),
            "value": _as_base64(self.raw_value),
        }


def read_original(key: Key, fields: Fields) -> OriginalFields:
    """The fields of the original; raises `WireError` unless its log position is the key's."""
    original: OriginalFields = {
        "topic": fields.text("topic"),
        "partition": fields.integer("partition"),
        "offset": fields.integer("offset"),
        "raw_key": _from_base64(fields.optional_text("key", empty=True)),
        "raw_value": _from_base64(fields.optional_text("value", empty=True)),
    }
    if (original["topic"], original["partition"], original["offset"]) != key:
        raise WireError("topic, partition and offset are not those of the key")
    return original


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRecord(CopiedRecord):
    """A record that could not be read at first, to be read again."""

    KIND: ClassVar = "replay"
    V: ClassVar = 1

    at: int
    """When the replay was requested, in milliseconds since the epoch."""
    timestamp: int
    """The original's own timestamp, in milliseconds since the epoch."""
    until: int
    """Offset below which no later record of the partition has the same key; above `offset`."""

    def value(self) -> dict[str, object]:
        return {
            "v": self.V,
            "at": self.at,
            "timestamp": self.timestamp,
            "until": self.until,
            **self.original_value(),
        }

    @classmethod
    def read(cls, key: Key, fields: Fields) -> ReplayRecord:
        record = cls(
            at=fields.integer("at"),
            timestamp=fields.integer("timestamp"),
            until=fields.integer("until"),
            **read_original(key, fields),
        )
        if record.until <= record.offset:
            raise WireError("until is not above offset")
        return record


def _as_base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _from_base64(text: str | None) -> bytes | None:
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise WireError("key or value is not base64") from None
