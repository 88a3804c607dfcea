"""Record of levelwind.replays: a record that the pipeline is to read once more.

A replay carries the whole original record, and `until`: the offset up to which its partition holds
no newer record of the same key. So the pipeline, which orders records by log position, knows which
state the replay may replace.
"""

# ruff: noqa: D102 - every record has the same three: key, value (its JSON) and read (the inverse).

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
