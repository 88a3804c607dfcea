"""What passes between the operators: each row is a route, a kind and a packed payload.

The route is what state is kept by: `t/` and a topic, `g/` and a group, `x/` and a partition for what only passes through.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streaming.messages.packing import (
    pack,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.rules.event_time import Int64


TOPIC_KEY_PREFIX = "t/"
GROUP_KEY_PREFIX = "g/"
PASS_THROUGH_PREFIX = "x/"  # noqa: S105 - a prefix of state keys, no password

NO_REPLAY = -1
"""The `until` of a record that is no replay: it was read where it stands in its log. A replay is a record that could not be
decoded at its turn and is read again later. It must not undo anything newer, so it says how far its log was searched for a
newer record of its key (`until`); what came from there on, the state that applies the replay must know."""


class Kind(IntEnum):
    """What a row's payload is."""

    COMMITS = 1
    """`TopicCommits` of a topic."""
    RECORD = 2
    """`Raw`: a good record of a topic of ours."""
    MEMBERSHIP = 3
    """`Raw`: good metadata of a classic group."""
    REJECTED = 4
    """`Raw`: a record that could not be read."""
    SKIPPED = 5
    """No payload: only counted."""
    LAG_SAMPLE = 6
    """`LagSample`: a group's lag in a topic at one sample."""
    LAG = 7
    """`LagRow`: a group's lag in a topic after the batch."""
    RACKS = 8
    """`RacksRow`: the replica racks of a topic that a group reads."""
    DETACHED = 9
    """`Detached`: a group no longer reads a topic, or the topic is gone."""
    PLAN_COVERS = 10
    """`PlanCovers`: a plan says that a group reads a topic, whether or not it has committed there."""
    REPLAYED_COMMIT = 11
    """`TopicCommits`: one, that could not be read when its turn was; it counts unless there is something newer."""
    REPLAY_DONE = 12
    """`Raw`: a replayed record that needs its dead letter no more."""
    VERIFY_KEY = 13
    """A key of what was published before the state was built anew: it ends unless the group's state says it, too."""


class Row(NamedTuple):
    """One row between operators."""

    state_key: str
    kind: int
    payload: bytes


class SinkRow(NamedTuple):
    """A record to be written to Kafka."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A Kafka record as it was read, with its place."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    reason: str = ""
    until: int = NO_REPLAY
    """Of a replay: the offset up to which its log was searched; below it the log has no newer record of the key."""

    @property
    def replayed(self) -> bool:
        """Whether the record is a replay."""
        return self.until != NO_REPLAY

    def pack(self) -> bytes:
        """The payload."""
        meta = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
            "reason": self.reason,
            "until": self.until,
        }
        parts = {"key": self.key, "value": self.value}
        return pack(
            meta, {name: np.frombuffer(p, np.uint8) for name, p in parts.items() if p is not None}
        )

    @classmethod
    def unpack(cls, payload: bytes) -> Raw:
        """From the payload."""
        meta, arrays = unpack(payload)
        parts: dict[str, Any] = {
            name: arrays[name].tobytes() if name in arrays else None for name in ("key", "value")
        }
        return cls(**meta, **parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCommits:
    """Offset commits of one topic; the columns are indexed by commit."""

    groups: tuple[str, ...]
    topic_ids: tuple[str, ...]
    group: Int64
    """An index of `groups`."""
    partition: Int64
    offset: Int64
    """-1: a tombstone."""
    at: Int64
    topic_id: Int64
    """An index of `topic_ids`; -1: the commit does not say."""
    source: Int64
    """The partition of the offsets topic, and"""
    position: Int64
    """the offset there."""
    until: int = NO_REPLAY
    """Of a replay, which is of one commit: the offset up to which its log was searched, as in `Raw`."""

    def pack(self) -> bytes:
        """The payload."""
        narrow = {name: getattr(self, name).astype(np.int32) for name in _NARROW}
        wide = {name: getattr(self, name) for name in _WIDE}
        meta = {"groups": self.groups, "topic_ids": self.topic_ids, "until": self.until}
        return pack(meta, {**narrow, **wide})

    @classmethod
    def unpack(cls, payload: bytes) -> TopicCommits:
        """From the payload."""
        meta, arrays = unpack(payload)
        columns = {name: arrays[name].astype(np.int64) for name in (*_NARROW, *_WIDE)}
        groups, topic_ids = tuple(meta["groups"]), tuple(meta["topic_ids"])
        return cls(groups=groups, topic_ids=topic_ids, until=meta["until"], **columns)


_NARROW = ("group", "partition", "topic_id", "source")
_WIDE = ("offset", "at", "position")


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """A group's lag in a topic at the time of a sample."""

    topic: str
    at: int
    lag: Int64
    """By partition."""
    seconds: float
    """For how long the next record of the partition has been there in which that is longest; 0: there is no lag."""
    committed_at: int
    """The time of the group's newest commit in the topic; -1: it has none, and reads it by plan."""
    source: Mapping[str, int]

    def pack(self) -> bytes:
        """The payload."""
        meta: dict[str, Any] = {
            name: getattr(self, name) for name in ("topic", "at", "seconds", "committed_at")
        }
        return pack({**meta, "source": dict(self.source)}, {"lag": self.lag})

    @classmethod
    def unpack(cls, payload: bytes) -> LagSample:
        """From the payload."""
        meta, arrays = unpack(payload)
        return cls(**meta, lag=arrays["lag"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """A group's lag in a topic after a batch, at the last sample."""

    topic: str
    at: int
    partitions: int
    committed: bool
    """Whether the group has a commit in the topic, and"""
    committed_at: int
    """the time of the newest; -1: none."""
    fields: tuple[str, ...]
    """Of the lag record's, those that the topic knows, each as JSON: `"name":value`."""

    def pack(self) -> bytes:
        """The payload: a line of JSON, and a line for each field."""
        return "\n".join(
            [json.dumps([getattr(self, name) for name in _LAG]), *self.fields]
        ).encode()

    @classmethod
    def unpack(cls, payload: bytes) -> LagRow:
        """From the payload."""
        meta, *fields = payload.decode().split("\n")
        return cls(**dict(zip(_LAG, json.loads(meta), strict=True)), fields=tuple(fields))


_LAG = ("topic", "at", "partitions", "committed", "committed_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class RacksRow:
    """The replica racks of a topic that a group reads, since `at`."""

    topic: str
    id: str
    at: int
    notified_at: int
    """When the group was to know: at a change, or when it came to read the topic."""
    racks: tuple[tuple[str, ...], ...]
    source: Mapping[str, int]
    committed: bool
    """Whether the group has a commit in the topic; without one it reads it by plan."""

    def pack(self) -> bytes:
        """The payload."""
        meta: dict[str, Any] = {
            name: getattr(self, name) for name in ("topic", "id", "at", "notified_at", "racks")
        }
        return pack({**meta, "committed": self.committed, "source": dict(self.source)}, {})

    @classmethod
    def unpack(cls, payload: bytes) -> RacksRow:
        """From the payload."""
        meta, _ = unpack(payload)
        meta["racks"] = tuple(map(tuple, meta["racks"]))
        return cls(**meta)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCovers:
    """A group's plan covers a topic, since `at`."""

    group: str
    at: int

    def pack(self) -> bytes:
        """The payload."""
        return pack({"group": self.group, "at": self.at}, {})

    @classmethod
    def unpack(cls, payload: bytes) -> PlanCovers:
        """From the payload."""
        return cls(**unpack(payload)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """A topic that a group no longer has to do with."""

    topic: str
    at: int

    def pack(self) -> bytes:
        """The payload."""
        return pack({"topic": self.topic, "at": self.at}, {})

    @classmethod
    def unpack(cls, payload: bytes) -> Detached:
        """From the payload."""
        return cls(**unpack(payload)[0])
