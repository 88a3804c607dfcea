"""A record of any topic that is carried whole inside one of levelwind's own: replays.

The key of such a record is the log position of the original: topic, partition and offset. A replay,
a record that the pipeline is to read once more, also has `until`: the offset up to which its
partition holds no newer record of the same key. So the pipeline, which orders records by log
position, knows which state the replay may replace.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from levelwind.assignors.protocol.declared.declaration import Declared
from levelwind.assignors.protocol.declared.fields import Name, Whole
from levelwind.assignors.protocol.declared.marks import Renamed
from levelwind.assignors.protocol.partition_ranges import WireError


class CopiedRecord(Declared, frozen=True, kw_only=True):
    """The original's log position and bytes."""

    WORD: ClassVar = None
    KEY_FIELDS: ClassVar = ("topic", "partition", "offset")
    KEY_IN_VALUE: ClassVar = True

    topic: Name
    partition: Whole
    offset: Whole
    raw_key: Annotated[bytes | None, Renamed("key")]
    raw_value: Annotated[bytes | None, Renamed("value")]


class ReplayRecord(CopiedRecord, frozen=True, kw_only=True):
    """A record that could not be read at first, to be read again."""

    KIND: ClassVar = "replay"

    at: Whole
    """When the replay was requested, in milliseconds since the epoch."""
    timestamp: Whole
    """The original's own timestamp, in milliseconds since the epoch."""
    until: Whole
    """Offset below which no later record of the partition has the same key; above `offset`."""

    def check(self) -> None:
        """Raise `WireError` unless the replay reaches beyond the record."""
        if self.until <= self.offset:
            raise WireError("until is not above offset")
