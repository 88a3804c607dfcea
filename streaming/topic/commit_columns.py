"""Offset commits of one topic, as columns: those that no sample has counted yet, in log order.

Groups and topic ids are numbers in the columns: indexes of the tuples `groups` and `topic_ids`,
which all tables of a topic share.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from levelwind.streaming.rules.event_time import UNKNOWN, Int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from levelwind.streaming.rules.event_time import Mask


GROUP_SHIFT = 32
PARTITION_MASK = (1 << GROUP_SHIFT) - 1
KEY, KEY_PARTS = "code", ("group", "partition")
COLUMNS = (KEY, "offset", "at", "topic_id", "source", "position")
NARROW_COLUMNS = ("topic_id", "source", *KEY_PARTS)
"""Columns that fit 32 bits; they are packed so."""


class CommitColumns(Struct, frozen=True, kw_only=True):
    """Commits in columns indexed by entry."""

    ALL: ClassVar[tuple[str, ...]] = COLUMNS
    """The names of all columns of the class."""
    groups: tuple[str, ...] = ()
    topic_ids: tuple[str, ...] = ()
    code: Int64
    """The key: `group << 32 | partition`."""
    offset: Int64
    """The committed offset; negative: the commit is a tombstone."""
    at: Int64
    """The time of the commit, in milliseconds since the epoch."""
    topic_id: Int64
    """An index of `topic_ids`; `UNKNOWN`: the commit carries no topic id."""
    source: Int64
    """The partition of the offsets topic from which the commit was read."""
    position: Int64
    """The offset of the commit's record in that partition."""

    @property
    def group(self) -> Int64:
        """The group of each entry, an index of `groups`."""
        return self.code >> GROUP_SHIFT

    @property
    def partition(self) -> Int64:
        """The topic's partition of each entry."""
        return self.code & PARTITION_MASK

    def take(self, rows: Int64 | Mask | slice) -> Self:
        """Some entries, in their order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self.ALL})

    def of_topic(self, topic_id: str) -> Mask:
        """Mask of the entries that may belong to a topic: with its id, or without any id."""
        fits = np.array([name == topic_id for name in self.topic_ids] + [True])  # the last: UNKNOWN
        return fits[self.topic_id]

    def renumbered(self, groups: Int64, topic_ids: Int64) -> Self:
        """The same commits with some of the names only.

        Args:
            groups: the indexes of the groups to keep, ascending; no entry has another group.
            topic_ids: the indexes of the topic ids to keep, ascending; no entry has another.
        """
        return replace(
            self,
            groups=tuple(self.groups[number] for number in groups.tolist()),
            topic_ids=tuple(self.topic_ids[number] for number in topic_ids.tolist()),
            code=np.searchsorted(groups, self.group) << GROUP_SHIFT | self.partition,
            topic_id=np.where(
                self.topic_id < 0, UNKNOWN, np.searchsorted(topic_ids, self.topic_id)
            ),
        )


class UncountedCommits(CommitColumns, frozen=True, kw_only=True):
    """Commits in log order: by source partition, then by offset there."""

    @property
    def effective_at(self) -> Int64:
        """The time from which each commit counts for a sample that carries no cut.

        It is the commit's own time, but never before that of a commit which precedes it in its log.
        """
        effective = self.at.copy()
        bounds = [0, *(np.flatnonzero(np.diff(self.source)) + 1).tolist(), self.source.size]
        for first, last in itertools.pairwise(bounds):
            np.maximum.accumulate(effective[first:last], out=effective[first:last])
        return effective

    @classmethod
    def empty(cls) -> UncountedCommits:
        """No commit at all."""
        columns: dict[str, Any] = dict.fromkeys(cls.ALL, no_entries())
        return cls(**columns)

    @classmethod
    def in_log_order(
        cls,
        groups: tuple[str, ...],
        topic_ids: tuple[str, ...],
        columns: Mapping[str, Int64],
    ) -> UncountedCommits:
        """Commits that come in any order, put in log order."""
        order = np.lexsort((columns["position"], columns["source"]))
        ordered: dict[str, Any] = {name: columns[name][order] for name in COLUMNS}
        return cls(groups=groups, topic_ids=topic_ids, **ordered)

    def followed_by(self, later: UncountedCommits) -> UncountedCommits:
        """These commits and some others, whose names begin with the names of these."""
        if not self.code.size:
            return later
        if not later.code.size:
            return replace(self, groups=later.groups, topic_ids=later.topic_ids)
        both = {
            name: np.concatenate([getattr(self, name), getattr(later, name)]) for name in COLUMNS
        }
        return UncountedCommits.in_log_order(later.groups, later.topic_ids, both)


def packable(
    columns: Mapping[str, npt.NDArray[Any]], prefix: str = ""
) -> dict[str, npt.NDArray[Any]]:
    """Columns to be packed, each under its name with a prefix; the key in its two parts.

    The parts are numbers that lie close together, which take few bytes.
    """
    code = columns[KEY]
    parts = zip(KEY_PARTS, (code >> GROUP_SHIFT, code & PARTITION_MASK), strict=True)
    wide = {**{name: column for name, column in columns.items() if name != KEY}, **dict(parts)}
    return {
        prefix + name: column.astype(np.int32 if name in NARROW_COLUMNS else np.int64, copy=False)
        for name, column in wide.items()
    }


def unpacked(
    columns: Mapping[str, npt.NDArray[Any]], names: Iterable[str], prefix: str = ""
) -> dict[str, Any]:
    """Columns that `packable` gave, by name with the prefix, and in 64 bits again."""
    wide = {
        prefix + name: columns[prefix + name].astype(np.int64, copy=False)
        for name in (*names, *KEY_PARTS)
        if name != KEY
    }
    group, partition = (wide.pop(prefix + name) for name in KEY_PARTS)
    return {prefix + KEY: group << GROUP_SHIFT | partition, **wide}


def no_entries() -> Int64:
    """A column without entries."""
    return np.zeros(0, np.int64)
