"""Rows that pass between the operators: each is a state key, a kind and a packed payload.

An operator keeps its state by state key, that of a bucket of topics or of groups (`buckets`). Rows
that need no state have `x/` and a partition number; they only pass through.

Spark's worker asks a row that an operator gives for its dict and for nothing else. Its own rows
look into every value for rows within it, 3 to 6 us a row, and take another 0.5 us to be made.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from levelwind.streaming.messages.packing import pack, unpack

PASS_THROUGH_PREFIX = "x/"  # noqa: S105 - a prefix of state keys, no password

NO_REPLAY = -1
"""The `until` of a record that is no replay, but was read at its own position in its log.

A replay is a record that could not be decoded there and is read again later. It must not undo
anything newer. So it carries `until`, the offset up to which its log was searched for a newer
record of its key; the state that applies the replay must know the records from there on."""


class Kind(IntEnum):
    """The content of a row's payload."""

    COMMITS = 1
    """`BucketCommits`: offset commits of a bucket's topics, or one replayed commit; that is applied
    unless a newer commit is known."""
    RECORD = 2
    """`Raw`: a valid record of one of levelwind's topics, but for those in `SAMPLES`."""
    MEMBERSHIP = 3
    """`Raw`: valid group metadata that a group coordinator wrote."""
    REJECTED = 4
    """`Raw`: a record that could not be decoded."""
    SKIPPED = 5
    """No payload: a record that is only counted."""
    LAG_SAMPLES = 6
    """`LagSamples`: the lag of groups of a bucket in a topic at one sample."""
    LAGS = 7
    """`LagRows`: the lag of groups of a bucket in a topic after the batch."""
    RACKS = 8
    """`RacksRow`: the replica racks of a topic that a group reads."""
    DETACHED = 9
    """`Detached`: a group no longer reads a topic, or the topic was deleted."""
    PLAN_COVERS = 10
    """`PlanCovers`: a group's plan, or what its members read, covers a topic, whether or not the
    group has committed there."""
    REPLAY_DONE = 11
    """`Raw`: a replayed record whose dead letter can be removed."""
    VERIFY_KEY = 12
    """The key of a record that an earlier checkpoint published; the record is tombstoned unless the
    rebuilt state still publishes it."""
    SAMPLES = 13
    """`BucketSamples`: plain samples of a bucket's topics."""


class Row(NamedTuple):
    """One row between operators."""

    state_key: str
    subject: str
    """The topic or the group that the row is about, by its bucket; empty: none, or the topics or
    groups that the payload names."""
    kind: int
    payload: bytes

    def asDict(  # noqa: N802 - Spark's name
        self,
        recursive: bool = False,  # noqa: ARG002 - Spark's signature
    ) -> dict[str, Any]:
        """The values by name of their fields, for Spark's worker."""
        return self._asdict()


NO_TOPIC = ""
"""Topic of a row that is no record: it says that something is at stake in a group."""


class SinkRow(NamedTuple):
    """A record to write to Kafka."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int

    def asDict(  # noqa: N802 - Spark's name
        self,
        recursive: bool = False,  # noqa: ARG002 - Spark's signature
    ) -> dict[str, Any]:
        """The values by name of their fields, for Spark's worker.

        A record each: `_asdict` takes twice as long.
        """
        topic, key, value, partition = self
        return {"topic": topic, "key": key, "value": value, "partition": partition}


class Raw(Struct, frozen=True, kw_only=True):
    """A Kafka record as it was read, with its position."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """The record's timestamp, in milliseconds since the epoch."""
    key: bytes | None
    value: bytes | None
    reason: str = ""
    """Why the record was rejected; empty: it was not."""
    until: int = NO_REPLAY
    """Of a replay: the offset below which its log has no newer record of the key (`NO_REPLAY`)."""

    @property
    def replayed(self) -> bool:
        """Whether the record is a replay."""
        return self.until != NO_REPLAY

    def pack(self) -> bytes:
        """The payload."""
        meta = asdict(self)
        parts = {name: meta.pop(name) for name in ("key", "value")}
        return pack(
            meta, {name: np.frombuffer(p, np.uint8) for name, p in parts.items() if p is not None}
        )

    @classmethod
    def unpack(cls, payload: bytes) -> Raw:
        """The row of a payload."""
        meta, arrays = unpack(payload)
        parts: dict[str, Any] = {
            name: arrays[name].tobytes() if name in arrays else None for name in ("key", "value")
        }
        return cls(**meta, **parts)


class _Statement(Struct, frozen=True):
    """A row without columns, which has its fields as the metadata of its payload."""

    def pack(self) -> bytes:
        """The payload."""
        return pack(self, {})

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """The row of a payload."""
        meta, _ = unpack(payload)
        return msgspec.convert(meta, cls)


class RacksRow(_Statement, frozen=True, kw_only=True):
    """The replica racks of a topic that a group reads."""

    topic: str
    id: str
    """The topic id."""
    at: int
    """The time at which the observer first saw these racks, in milliseconds since the epoch."""
    notified_at: int
    """The time from which the group takes the racks into account: that of the change, or when the
    group came to read the topic."""
    racks: tuple[tuple[str, ...], ...]
    """The racks of the replicas, by partition."""
    source: Mapping[str, int]
    """By "topic/partition" of the input, the offset of the layout's record."""
    committed: bool
    """Whether the group has a commit in the topic; otherwise it reads the topic by its plan or its
    members alone."""


class PlanCovers(_Statement, frozen=True, kw_only=True):
    """The statement that a group's plan, or what its members read, covers a topic since a time."""

    group: str
    at: int
    """The timestamp of the plan's or members' record, in milliseconds since the epoch."""


class Detached(_Statement, frozen=True, kw_only=True):
    """The statement that a group no longer reads a topic since a time."""

    topic: str
    at: int
    """Milliseconds since the epoch."""
