"""Lag of groups in topics: rows from the topics' operator to the groups', some for a whole bucket.

Each is packed in columns, for all topics that were computed together, and gives the values of a
single group in one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from levelwind.streaming.messages.lag_json import OwnFields, SharedFields
from levelwind.streaming.messages.own_fields import OwnColumns
from levelwind.streaming.messages.packing import (
    lines_column,
    lines_of,
    names_column,
    names_of,
    pack,
    unpack,
)
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.member_loads import RATE_SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.streaming.messages.packing import Arrays
    from levelwind.streaming.rules.event_time import Floats, Int64

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
    """The age of the oldest record that the group has not read, in seconds, in partitions whose lag
    no reader that keeps pace leaves; 0: there is none."""
    committed_at: int
    """The time of the group's newest commit in the topic; -1: the group reads it by plan alone."""
    source: Mapping[str, int]
    """By "topic/partition" of the input, the offset up to which it was read: that of the group's
    newest commit, and that of the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSamples:
    """Samples of topics that have as many partitions, with the lag of groups; see `LagSample`.

    A row is a group's lag in a topic: columns are indexed by topic, or by row.
    """

    topics: tuple[str, ...]
    """Each once."""
    at: Int64
    """By topic, the time of its sample."""
    rate: Int64
    """A matrix, topics by partitions."""
    sample_logs: tuple[str, ...]
    """The "topic/partition" of the inputs that hold the samples."""
    sample_log: Int64
    """By topic, the log of its sample, an index of `sample_logs`; -1: its position is not known."""
    sample_position: Int64
    """By topic, the offset of its sample."""
    groups: tuple[str, ...]
    """Each once."""
    topic: Int64
    """By row, an index of `topics`."""
    group: Int64
    """By row, an index of `groups`."""
    lag: Int64
    """A matrix, rows by partitions."""
    stepped: Int64
    """Indices of the rows with commits since the sample before, ascending."""
    advance: Int64
    """A matrix, these rows by partitions."""
    behind_at: Int64
    """A matrix, these rows by partitions."""
    seconds: Floats
    committed_at: Int64
    commit_logs: tuple[str, ...]
    """The partitions of the offsets topic that hold the groups' newest commits."""
    commit_log: Int64
    """By row, the log of the newest commit, an index of `commit_logs`; -1: there is no commit."""
    commit_position: Int64
    """The offset of that commit."""

    def pack(self) -> bytes:
        """The payload."""
        meta = {
            "commit_logs": self.commit_logs,
            "sample_logs": self.sample_logs,
            "partitions": self.lag.shape[1],
        }
        columns = {name: getattr(self, name) for name in _SAMPLE_COLUMNS}
        matrices = {name: getattr(self, name).reshape(-1) for name in _SAMPLE_MATRICES}
        # Few commits are behind, and their times lie close together: both are packed apart.
        behind_at = self.behind_at.reshape(-1)
        is_behind = behind_at != UNKNOWN
        behind = {"is_behind": np.packbits(is_behind), "behind_at": behind_at[is_behind]}
        names = {"groups": names_column(self.groups), "topics": names_column(self.topics)}
        return pack(meta, columns | matrices | behind | names)

    @classmethod
    def unpack(cls, payload: bytes) -> LagSamples:
        """The row of a payload."""
        meta, arrays = unpack(payload)
        partitions, steps = meta["partitions"], arrays["stepped"].size
        is_behind = np.unpackbits(arrays["is_behind"], count=steps * partitions).astype(np.bool_)
        behind_at = np.full(is_behind.size, UNKNOWN, np.int64)
        behind_at[is_behind] = arrays["behind_at"]
        return cls(
            topics=names_of(arrays["topics"]),
            groups=names_of(arrays["groups"]),
            commit_logs=tuple(meta["commit_logs"]),
            sample_logs=tuple(meta["sample_logs"]),
            **{name: arrays[name] for name in _SAMPLE_COLUMNS},
            lag=arrays["lag"].reshape(arrays["group"].size, partitions),
            rate=arrays["rate"].reshape(arrays["at"].size, partitions),
            advance=arrays["advance"].reshape(steps, partitions),
            behind_at=behind_at.reshape(steps, partitions),
        )

    def sample(self, row: int) -> LagSample:
        """The sample of one group in one topic."""
        topic = int(self.topic[row])
        source = {}
        if (log := int(self.commit_log[row])) >= 0:
            source[self.commit_logs[log]] = int(self.commit_position[row])
        if (log := int(self.sample_log[topic])) >= 0:
            source[self.sample_logs[log]] = int(self.sample_position[topic])
        step = int(np.searchsorted(self.stepped, row))
        has_step = step < self.stepped.size and self.stepped[step] == row
        return LagSample(
            topic=self.topics[topic],
            at=int(self.at[topic]),
            lag=self.lag[row],
            rate=self.rate[topic],
            advance=self.advance[step] if has_step else None,
            behind_at=self.behind_at[step] if has_step else None,
            seconds=float(self.seconds[row]),
            committed_at=int(self.committed_at[row]),
            source=source,
        )


_SAMPLE_COLUMNS = (
    "at",
    "sample_log",
    "sample_position",
    "topic",
    "group",
    "seconds",
    "committed_at",
    "commit_log",
    "commit_position",
    "stepped",
)
_SAMPLE_MATRICES = ("lag", "rate", "advance")


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
    """The lag of groups after a batch in topics that have as many partitions; see `LagRow`.

    A row is a group's lag in a topic: columns are indexed by topic, or by row.
    """

    topics: tuple[str, ...]
    """Each once."""
    at: Int64
    """By topic."""
    partitions: int
    shared: tuple[SharedFields, ...]
    """By topic."""
    groups: tuple[str, ...]
    """Each once."""
    topic: Int64
    """By row, an index of `topics`."""
    group: Int64
    """By row, an index of `groups`."""
    committed_at: Int64
    own: OwnColumns
    """The fields of each row's own."""

    def pack(self) -> bytes:
        """The payload."""
        same, arrays = self.own.pack()
        columns: Arrays = {name: getattr(self, name) for name in _ROW_COLUMNS}
        names: Arrays = {"groups": names_column(self.groups), "topics": names_column(self.topics)}
        texts: Arrays = {
            f"shared_{name}": lines_column(of_topics)
            for name, of_topics in zip(
                SharedFields._fields, zip(*self.shared, strict=True), strict=True
            )
        }
        meta: dict[str, Any] = {"own": same, "partitions": self.partitions}
        return pack(meta, columns | names | texts | arrays)

    @classmethod
    def unpack(cls, payload: bytes) -> LagRows:
        """The row of a payload."""
        meta, arrays = unpack(payload)
        texts = [
            lines_of(arrays[f"shared_{name}"], arrays["at"].size) for name in SharedFields._fields
        ]
        return cls(
            topics=names_of(arrays["topics"]),
            groups=names_of(arrays["groups"]),
            partitions=meta["partitions"],
            shared=tuple([SharedFields(*of_topic) for of_topic in zip(*texts, strict=True)]),
            **{name: arrays[name] for name in _ROW_COLUMNS},
            own=OwnColumns.unpack(arrays["group"].size, meta["own"], arrays),
        )

    def row(self, index: int) -> LagRow:
        """The row of one group in one topic."""
        topic = int(self.topic[index])
        return LagRow(
            topic=self.topics[topic],
            at=int(self.at[topic]),
            partitions=self.partitions,
            committed_at=int(self.committed_at[index]),
            shared=self.shared[topic],
            own=self.own.row(index),
        )


_ROW_COLUMNS = ("at", "topic", "group", "committed_at")
