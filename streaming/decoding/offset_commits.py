"""Decoder of the values of offset commits, in columns.

V 0000, 0002 | i64 offset | i16-len metadata | i64 commit time
V 0001       | … and | i64 expiry
V 0003       | i64 offset | i32 leader epoch | i16-len metadata | i64 commit time
V 0004       | i64 offset | i32 leader epoch | uvarint-len+1 metadata | i64 commit time
             | tags (0: topic id)

Brokers accept any offset, and clients read a negative one as none: so a negative offset takes the
commit before it back, as a null value does. A time beyond the year 9999 is garbage: the records
that are published cannot have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.protocol.canonical_json import LATEST_MS
from levelwind.assignors.protocol.kafka.types import Reader
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from levelwind.streaming.decoding.byte_columns import ByteRows
    from levelwind.streaming.rules.event_time import Int64, Mask


NEWEST_VERSION = 4
FLEXIBLE_VERSION = 4
TOMBSTONE = -1
"""The offset of a commit that was deleted or taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitValues:
    """Values of offset commits; every column is indexed by commit."""

    offset: Int64
    at: Int64
    """The time in the commit, in milliseconds since the epoch; `UNKNOWN`: a tombstone has none."""
    topic_id: Int64
    """An index of `topic_ids`; `UNKNOWN`: the commit carries no topic id."""
    topic_ids: tuple[bytes, ...]
    malformed: Mask
    unknown: Mask
    """Whether the value is of a version newer than `NEWEST_VERSION`."""


def decode_values(values: ByteRows) -> CommitValues:
    """Decode the values of all rows; a null is a tombstone."""
    tombstone = values.is_null
    version = np.where(values.size >= 2, values.int16(values.start), -1)
    flexible = version >= FLEXIBLE_VERSION
    offset = values.int64(values.start + 2)
    metadata_at = values.start + 10 + np.where(version >= 3, 4, 0)  # leader epoch
    compact, compact_width = values.uvarint(metadata_at)
    metadata_size = np.where(flexible, compact - 1, values.int16(metadata_at))
    time_at = metadata_at + np.where(flexible, compact_width, 2) + np.maximum(metadata_size, 0)
    at = values.int64(time_at)
    after_time = time_at + 8 + np.where(version == 1, 8, 0)  # expiry
    fits = (metadata_size >= 0) & (at >= -1) & (at <= LATEST_MS)
    known = (version >= 0) & (version <= NEWEST_VERSION)

    plain = fits & known & ~flexible & (after_time == values.end)
    tagged = fits & known & flexible & (after_time < values.end)
    ids = _TopicIds(values, tagged, after_time)
    good = plain | ids.fits | tombstone
    unknown = ~known & (values.size >= 2)
    return CommitValues(
        offset=np.where(tombstone, TOMBSTONE, np.maximum(offset, TOMBSTONE)),
        at=np.where(tombstone, UNKNOWN, at),
        topic_id=ids.index,
        topic_ids=ids.names,
        malformed=~good & ~unknown,
        unknown=unknown & ~tombstone,
    )


class _TopicIds:
    """The tagged fields that end a value of version 4: the topic id (tag 0), or unknown ones."""

    __slots__ = ("fits", "index", "names")

    def __init__(self, values: ByteRows, tagged: Mask, start: Int64) -> None:
        none = tagged & (start + 1 == values.end) & (values.uint8(start) == 0)
        # One tag, number 0, of 16 bytes: what brokers write.
        one = tagged & (start + 19 == values.end) & (values.uint8(start) == 1)
        one &= (values.uint8(start + 1) == 0) & (values.uint8(start + 2) == 16)
        found, index = values.intern_bytes(np.where(one, start + 3, 0), np.where(one, 16, 0))
        self.fits = none | one
        self.index = np.where(one, index, UNKNOWN)
        names = list(found)
        # Tags of a newer broker are rare, so they are read one by one.
        for row in np.flatnonzero(tagged & ~self.fits).tolist():
            try:
                topic_id = _topic_id(values.slice(row, int(start[row])))
            except WireError:
                continue
            self.fits[row] = True
            if topic_id is not None:
                self.index[row] = len(names)
                names.append(topic_id)
        self.names = tuple(names)


def _topic_id(data: bytes) -> bytes | None:
    reader = Reader(data)
    tags = reader.tags()
    reader.end()
    topic_id = tags.get(0)
    if topic_id is not None and len(topic_id) != 16:
        raise WireError("a topic id has 16 bytes")
    return topic_id
