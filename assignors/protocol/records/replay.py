"""Records of levelwind.replays: what an operator gives the pipeline to read once more.

A replay carries the record as it stands at its place, whole, and `until`: up to where its partition holds no newer record
of the same key. So the pipeline, which orders by place, knows what the replay may take the place of.
"""

# ruff: noqa: D102 - key, value and read are the same three of every record: its key, its JSON, and the way back.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from assignors.protocol.partition_ranges import WireError
from assignors.protocol.records.copied import CopiedRecord, read_original

if TYPE_CHECKING:
    from assignors.protocol.json_fields import Fields
    from assignors.protocol.records.metadata import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRecord(CopiedRecord):
    """A record that could not be read once, to be read again."""

    KIND: ClassVar = "replay"
    V: ClassVar = 1

    at: int
    """When it was asked for."""
    timestamp: int
    """The record's own."""
    until: int
    """Below this offset of its partition, no record behind it has its key."""

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
            raise WireError("until is not behind the record itself")
        return record
