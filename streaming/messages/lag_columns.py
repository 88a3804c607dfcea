"""Lag of groups in a topic: rows from the topic's operator to the groups', one for a whole bucket.

Each is packed in columns that are indexed by group, and gives the values of a single group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from levelwind.streaming.messages.lag_json import OwnFields, SharedFields
from levelwind.streaming.messages.own_fields import OwnColumns
from levelwind.streaming.messages.packing import names_column, names_of, pack, unpack
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.member_loads import RATE_SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.streaming.messages.packing import Arrays
    from levelwind.streaming.rules.event_time import Floats, Int64

InputPosition: TypeAlias = tuple[str, int]
"""The "topic/partition" of a record of the input, and its offset there."""

MAX_INT32 = 2**31 - 1


def scaled_rate(rate: Floats) -> Int64:
    """Rates in records a second as whole numbers of `RATE_SCALE`; one that is not known as 0."""
    return np.minimum(np.rint(np.nan_to_num(rate) * RATE_SCALE), MAX_INT32).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """A group's lag in a topic at one sample."""

    topic: str
    at: int
    """The time of the sample, in milliseconds since the epoch."""
    lag: Int64
    """The records that wait for the group, by partition: its lag, but for what a reader that keeps
    pace has read since its last commit."""
    rate: Int64
    """The records that arrive in `RATE_SCALE` seconds, by partition."""
    advance: Int64 | None
    """The offsets by which the group's commits advanced since the sample before, by partition;
    None: by none."""
    behind_at: Int64 | None
    """By partition, the time of its newest such commit if that one was behind; otherwise -1."""
    seconds: float
    """The age of the oldest record that the group has not read, in seconds; 0: there is no lag."""
    committed_at: int
    """The time of the group's newest commit in the topic; -1: the group reads it by plan alone."""
    source: Mapping[str, int]
    """By "topic/partition" of the input, the offset up to which it was read: that of the group's
    newest commit, and that of the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSamples:
    """The lag of some groups in a topic at one sample; see `LagSample`."""

    topic: str
    at: int
    groups: tuple[str, ...]
    lag: Int64
    """A matrix, groups by partitions."""
    rate: Int64
    """By partition."""
    stepped: Int64
    """Indices of the groups with commits since the sample before, ascending."""
    advance: Int64
    """A matrix, these groups by partitions."""
    behind_at: Int64
    """A matrix, these groups by partitions."""
    seconds: Floats
    committed_at: Int64
    commit_logs: tuple[str, ...]
    """The partitions of the offsets topic that hold the groups' newest commits."""
    commit_log: Int64
    """The log of each group's newest commit, an index of `commit_logs`; -1: it has no commit."""
    commit_position: Int64
    """The offset of that commit."""
    position: InputPosition | None
    """The position of the sample."""

    def pack(self) -> bytes:
        """The payload."""
        meta = {
            "topic": self.topic,
            "at": self.at,
            "commit_logs": self.commit_logs,
            "position": self.position,
            "partitions": self.lag.shape[1],
        }
        columns = {name: getattr(self, name) for name in _SAMPLE_COLUMNS}
        matrices = {name: getattr(self, name).reshape(-1) for name in _SAMPLE_MATRICES}
        # Few commits are behind, and their times lie close together: both are packed apart.
        behind_at = self.behind_at.reshape(-1)
        is_behind = behind_at != UNKNOWN
        behind = {"is_behind": np.packbits(is_behind), "behind_at": behind_at[is_behind]}
        columns["groups"] = names_column(self.groups)
        return pack(meta, columns | matrices | behind)

    @classmethod
    def unpack(cls, payload: bytes) -> LagSamples:
        """The row of a payload."""
        meta, arrays = unpack(payload)
        groups, position = names_of(arrays["groups"]), meta["position"]
        partitions, steps = meta["partitions"], arrays["stepped"].size
        is_behind = np.unpackbits(arrays["is_behind"], count=steps * partitions).astype(np.bool_)
        behind_at = np.full(is_behind.size, UNKNOWN, np.int64)
        behind_at[is_behind] = arrays["behind_at"]
        return cls(
            topic=meta["topic"],
            at=meta["at"],
            groups=groups,
            commit_logs=tuple(meta["commit_logs"]),
            position=None if position is None else (position[0], position[1]),
            **{name: arrays[name] for name in _SAMPLE_COLUMNS},
            lag=arrays["lag"].reshape(len(groups), partitions),
            advance=arrays["advance"].reshape(steps, partitions),
            behind_at=behind_at.reshape(steps, partitions),
        )

    def sample(self, index: int) -> LagSample:
        """The sample of one group."""
        source = {}
        if (log := int(self.commit_log[index])) >= 0:
            source[self.commit_logs[log]] = int(self.commit_position[index])
        if self.position is not None:
            source[self.position[0]] = self.position[1]
        step = int(np.searchsorted(self.stepped, index))
        has_step = step < self.stepped.size and self.stepped[step] == index
        return LagSample(
            topic=self.topic,
            at=self.at,
            lag=self.lag[index],
            rate=self.rate,
            advance=self.advance[step] if has_step else None,
            behind_at=self.behind_at[step] if has_step else None,
            seconds=float(self.seconds[index]),
            committed_at=int(self.committed_at[index]),
            source=source,
        )


_SAMPLE_COLUMNS = ("seconds", "committed_at", "commit_log", "commit_position", "rate", "stepped")
_SAMPLE_MATRICES = ("lag", "advance")


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """A group's lag in a topic after a batch, at the last sample."""

    topic: str
    at: int
    """The time of the last sample, in milliseconds since the epoch."""
    partitions: int
    """The topic's number of partitions at that sample."""
    committed_at: int
    """The time of the group's newest commit in the topic; -1: there is none."""
    shared: SharedFields
    """The fields of the lag record that are the same for all groups of the topic."""
    own: OwnFields
    """The fields of the lag record that the topic knows of this group."""

    @property
    def committed(self) -> bool:
        """Whether the group has a commit in the topic."""
        return self.committed_at != UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRows:
    """The lag of some groups in a topic after a batch; see `LagRow`."""

    topic: str
    at: int
    partitions: int
    groups: tuple[str, ...]
    committed_at: Int64
    shared: SharedFields
    own: OwnColumns
    """The fields of each group's own."""

    def pack(self) -> bytes:
        """The payload."""
        meta: dict[str, Any] = {name: getattr(self, name) for name in _ROW_META}
        meta["own"], arrays = self.own.pack()
        columns: Arrays = {"committed_at": self.committed_at, "groups": names_column(self.groups)}
        return pack(meta, columns | arrays)

    @classmethod
    def unpack(cls, payload: bytes) -> LagRows:
        """The row of a payload."""
        meta, arrays = unpack(payload)
        groups = names_of(arrays["groups"])
        return cls(
            topic=meta["topic"],
            at=meta["at"],
            partitions=meta["partitions"],
            groups=groups,
            committed_at=arrays["committed_at"],
            shared=SharedFields(*meta["shared"]),
            own=OwnColumns.unpack(len(groups), meta["own"], arrays),
        )

    def row(self, index: int) -> LagRow:
        """The row of one group."""
        return LagRow(
            topic=self.topic,
            at=self.at,
            partitions=self.partitions,
            committed_at=int(self.committed_at[index]),
            shared=self.shared,
            own=self.own.row(index),
        )


_ROW_META = ("topic", "at", "partitions", "shared")
