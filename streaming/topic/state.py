"""What is known of one topic; how a batch changes it is told by `topic.update`.

Size, packed: a kilobyte; 188 bytes a partition, 132 of them the history of its end; 56 a group and partition that it
committed, with the two marks that its velocity is measured from; 40 a commit that waits for the sample that counts it, of
which there are at most `UNCOUNTED_MARGIN` more than commits that are counted; at most `MAX_DEFERRED_RECORDS` samples that wait for commits to be
read. Measured: 237 bytes a partition with one group and one mark.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from streaming.messages.packing import (
    PackingError,
    pack,
    unpack,
)
from streaming.rules.event_time import UNKNOWN
from streaming.topic.commit_table import (
    CommitTable,
    compacted,
)
from streaming.topic.end_history import EndOffsetHistory

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from assignors.protocol.records import EndKind
    from streaming.rules.event_time import Int64
    from streaming.rules.partition_lag import ResetPolicy


Racks: TypeAlias = tuple[tuple[str, ...], ...]

VERSION = 4
READER_TTL_MS = 7 * 24 * 60 * 60 * 1000
"""Milliseconds of event time after its last plan that a group counts as a reader without a commit: as long as brokers keep
the offsets of a group that is empty (offsets.retention.minutes)."""
UNCOUNTED_MARGIN = 4096
MAX_DEFERRED_RECORDS = 64


def _none() -> Int64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRule:
    """What counts as the end, and what a group without a commit has to read."""

    end_kind: EndKind = "stable"
    reset: ResetPolicy = "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The ends at one time, to measure speeds from; of the commits' part see `CommitTable`."""

    at: int
    end: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic; the arrays and `racks` are indexed by partition."""

    id: str = ""
    at: int = UNKNOWN
    """Of the last sample."""
    begin: Int64
    stable: Int64
    high: Int64
    data_end: Int64
    """Where the records end that a read_committed consumer is given, if that is known to be below `stable`."""
    end_read_at: Int64
    """When the end was last read."""
    racks: Racks = ()
    racks_at: int = UNKNOWN
    sample_position: tuple[str, int] | None = None
    """Where the last sample stands: "topic/partition" and offset; likewise"""
    layout_position: tuple[str, int] | None = None
    """the last layout."""
    exact_cut: bool = True
    """Whether samples say how far commits had come."""
    commits: CommitTable
    """The newest commit of each group and partition as of the last sample."""
    uncounted_commits: CommitTable
    """Those that came after it, all of them, in log order."""
    deferred_records: tuple[bytes, ...] = ()
    """Records of the topic, each `Raw`, from the first sample on whose commits are not all read yet."""
    planned_readers: Mapping[str, int] = field(default_factory=dict)
    """By group, since when a plan says that it reads the topic: it counts without a commit, too."""
    last_tombstones: Mapping[str, int] = field(default_factory=dict)
    """By partition of the offsets topic, where the last tombstone of a commit stood: a replay must not be behind it."""
    history: EndOffsetHistory
    baselines: tuple[Baseline, ...] = ()
    """At most two, the older first."""

    @classmethod
    def empty(cls) -> TopicState:
        """Nothing is known."""
        none = CommitTable.empty()
        arrays: dict[str, Any] = {name: _none() for name in _ARRAYS}
        return cls(**arrays, commits=none, uncounted_commits=none, history=EndOffsetHistory.empty())

    @property
    def blank(self) -> bool:
        """Whether there is nothing to keep."""
        return not (
            self.id
            or self.commits.code.size
            or self.uncounted_commits.code.size
            or self.planned_readers
            or self.deferred_records
        )

    def compact(self) -> TopicState:
        """Without names that nothing uses."""
        uncounted_commits = replace(
            self.uncounted_commits, groups=self.commits.groups, topic_ids=self.commits.topic_ids
        )
        commits, uncounted_commits = compacted(self.commits, uncounted_commits)
        return replace(self, commits=commits, uncounted_commits=uncounted_commits)

    def pack(self) -> bytes:
        """The state store's value."""
        meta = {name: getattr(self, name) for name in _META} | {
            "state": VERSION,
            "groups": self.commits.groups,
            "topic_ids": self.commits.topic_ids,
            "planned_readers": dict(self.planned_readers),
            "last_tombstones": dict(self.last_tombstones),
            "deferred_records": [len(payload) for payload in self.deferred_records],
            "baselines": [mark.at for mark in self.baselines],
        }
        arrays: dict[str, npt.NDArray[Any]] = {name: getattr(self, name) for name in _ARRAYS}
        if self.deferred_records:
            arrays["deferred_records"] = np.frombuffer(b"".join(self.deferred_records), np.uint8)
        for number, mark in enumerate(self.baselines):
            arrays[f"baseline{number}"] = mark.end
        commits = self.commits.columns() | self.uncounted_commits.columns(
            "uncounted_", baselines=False
        )
        return pack(meta, arrays | self.history.arrays() | commits)

    @classmethod
    def unpack(cls, value: bytes) -> TopicState:
        """From the state store's value."""
        meta, arrays = unpack(value)
        if meta.get("state") != VERSION:
            raise PackingError(f"topic state of version {meta.get('state')}, not {VERSION}")
        names = meta["groups"], meta["topic_ids"]
        bounds = np.cumsum([0, *meta["deferred_records"]]).tolist()
        deferred_records = (
            arrays["deferred_records"].tobytes() if "deferred_records" in arrays else b""
        )
        known: dict[str, Any] = {name: meta[name] for name in _SCALARS}
        columns: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        return cls(
            **known,
            **columns,
            racks=tuple(map(tuple, meta["racks"])),
            sample_position=_place(meta["sample_position"]),
            layout_position=_place(meta["layout_position"]),
            commits=CommitTable.of(*names, arrays),
            uncounted_commits=CommitTable.of(*names, arrays, "uncounted_"),
            deferred_records=tuple(
                deferred_records[first:last] for first, last in itertools.pairwise(bounds)
            ),
            history=EndOffsetHistory.of(arrays),
            baselines=tuple(
                Baseline(at=at, end=arrays[f"baseline{number}"])
                for number, at in enumerate(meta["baselines"])
            ),
        )


_META = ("id", "at", "racks", "racks_at", "sample_position", "layout_position", "exact_cut")
_SCALARS = ("id", "at", "racks_at", "exact_cut", "planned_readers", "last_tombstones")
_ARRAYS = ("begin", "stable", "high", "data_end", "end_read_at")


def _place(value: list[object] | None) -> tuple[str, int] | None:
    return None if value is None else (str(value[0]), int(str(value[1])))
