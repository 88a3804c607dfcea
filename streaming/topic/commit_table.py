"""The newest commit of every (group, partition) of one topic, as sorted columns.

A commit is newer by its offset in the offsets topic, never by its clock. A group's place in `groups` is its number in
`code`, the sorted key: `group << 32 | partition`. A tombstone takes its entry away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from streaming.messages.rows import TopicCommits
    from streaming.rules.event_time import (
        Int64,
        Mask,
    )


SHIFT = 32
PARTITION = (1 << SHIFT) - 1
COLUMNS = ("code", "offset", "at", "topic_id", "source", "position")
BASELINES = ("old_baseline", "new_baseline")
NARROW = ("topic_id", "source")


def _none() -> Int64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTable:
    """Commits in columns indexed by entry; `topic_id` is an index of `topic_ids`, -1 where a commit carries none."""

    groups: tuple[str, ...] = ()
    topic_ids: tuple[str, ...] = ()
    code: Int64
    offset: Int64
    at: Int64
    topic_id: Int64
    source: Int64
    """The partition of the offsets topic, and"""
    position: Int64
    """the offset there."""
    old_baseline: Int64
    """The offsets at two marks in time, `UNKNOWN` where there was no commit then."""
    new_baseline: Int64

    @classmethod
    def empty(cls) -> CommitTable:
        """No commit at all."""
        columns: dict[str, Any] = {name: _none() for name in (*COLUMNS, *BASELINES)}
        return cls(**columns)

    @property
    def group(self) -> Int64:
        """Of each entry, an index of `groups`."""
        return self.code >> SHIFT

    @property
    def partition(self) -> Int64:
        """Of each entry, the partition."""
        return self.code & PARTITION

    def columns(self, prefix: str = "", *, baselines: bool = True) -> dict[str, npt.NDArray[Any]]:
        """To be packed."""
        return {
            prefix + name: getattr(self, name).astype(np.int32 if name in NARROW else np.int64)
            for name in (COLUMNS + BASELINES if baselines else COLUMNS)
        }

    @classmethod
    def of(
        cls,
        groups: Iterable[str],
        topic_ids: Iterable[str],
        columns: Mapping[str, npt.NDArray[Any]],
        prefix: str = "",
    ) -> CommitTable:
        """From what was packed."""
        wide: dict[str, Any] = {name: columns[prefix + name].astype(np.int64) for name in COLUMNS}
        unmarked = np.full(wide["code"].size, UNKNOWN, np.int64)
        baselines: dict[str, Any] = {
            name: columns.get(prefix + name, unmarked) for name in BASELINES
        }
        return cls(groups=tuple(groups), topic_ids=tuple(topic_ids), **wide, **baselines)

    def take(self, rows: Int64 | Mask) -> CommitTable:
        """Some entries, in their order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in (*COLUMNS, *BASELINES)})

    def with_new_baseline(self) -> CommitTable:
        """With a mark at this time; the older of the former two is forgotten."""
        return replace(self, old_baseline=self.new_baseline, new_baseline=self.offset)

    def naming(self, groups: Iterable[str]) -> CommitTable:
        """This table with the names of some groups added: of those that read the topic without a commit."""
        return replace(self, groups=tuple(dict.fromkeys((*self.groups, *groups))))

    def with_names(self, batches: Iterable[TopicCommits]) -> tuple[CommitTable, CommitTable]:
        """This table with the names of some commits added, and those commits under its numbers, in log order."""
        groups = {name: number for number, name in enumerate(self.groups)}
        ids = {name: number for number, name in enumerate(self.topic_ids)}
        parts: dict[str, list[Int64]] = {name: [] for name in COLUMNS}
        for batch in batches:
            group = _renumber(batch.groups, groups)[batch.group]
            # The last number stands for -1: no id.
            topic_id = np.append(_renumber(batch.topic_ids, ids), -1)[batch.topic_id]
            parts["code"].append(group << SHIFT | batch.partition)
            parts["topic_id"].append(topic_id)
            for name in ("offset", "at", "source", "position"):
                parts[name].append(getattr(batch, name))
        names: dict[str, Any] = {"groups": tuple(groups), "topic_ids": tuple(ids)}
        columns: dict[str, Any] = {
            name: np.concatenate(part) if part else _none() for name, part in parts.items()
        }
        unmarked = np.full(columns["code"].size, UNKNOWN, np.int64)
        baselines: dict[str, Any] = dict.fromkeys(BASELINES, unmarked)
        news = CommitTable(**names, **columns, **baselines)
        return replace(self, **names), news.in_log_order()

    def in_log_order(self) -> CommitTable:
        """The entries source partition by source partition, as they stand there."""
        return self.take(np.lexsort((self.position, self.source)))

    def followed_by(self, later: CommitTable) -> CommitTable:
        """These entries and some others, which have the same numbers and more names."""
        both: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(later, name)])
            for name in (*COLUMNS, *BASELINES)
        }
        return replace(later, **both)

    def merged(self, news: CommitTable) -> CommitTable:
        """With newer commits in place of older ones; `news` has this table's numbers."""
        if not news.code.size:
            return self
        order = np.lexsort((news.position, news.code))
        last = np.append(np.diff(news.code[order]) != 0, True)[: order.size]
        news = news.take(order[last])
        place = np.searchsorted(self.code, news.code)
        known = np.zeros(place.size, np.bool_)
        inside = place < self.code.size
        known[inside] = self.code[place[inside]] == news.code[inside]
        columns: dict[str, Any] = {name: getattr(self, name) for name in (*COLUMNS, *BASELINES)}
        for name in COLUMNS[1:]:  # a mark is what stood there then, whatever came since
            columns[name] = columns[name].copy()
            columns[name][place[known]] = getattr(news, name)[known]
        if not known.all():
            new = ~known
            for name, column in columns.items():
                columns[name] = np.insert(column, place[new], getattr(news, name)[new])
        merged = replace(self, **columns)
        return merged.take(merged.offset >= 0) if (news.offset < 0).any() else merged

    def renumbered(self, groups: Int64, topic_ids: Int64) -> CommitTable:
        """With only some of the names, given by their numbers, ascending; no entry uses another."""
        return replace(
            self,
            groups=tuple(self.groups[number] for number in groups.tolist()),
            topic_ids=tuple(self.topic_ids[number] for number in topic_ids.tolist()),
            code=np.searchsorted(groups, self.group) << SHIFT | self.partition,
            topic_id=np.where(self.topic_id < 0, -1, np.searchsorted(topic_ids, self.topic_id)),
        )

    def of_topic(self, topic_id: str) -> Mask:
        """Which entries are, or may be, of the topic with this id: a commit without an id may be of any."""
        fits = np.array([name == topic_id for name in self.topic_ids] + [True])  # the last: -1
        return fits[self.topic_id]


def compacted(*tables: CommitTable) -> tuple[CommitTable, ...]:
    """Tables with the same names, without those that no entry of any uses."""
    first = tables[0]
    groups = used([table.group for table in tables], len(first.groups))
    ids = used([table.topic_id for table in tables], len(first.topic_ids))
    if groups.size == len(first.groups) and ids.size == len(first.topic_ids):
        return tables
    return tuple(table.renumbered(groups, ids) for table in tables)


def used(columns: Iterable[Int64], size: int) -> Int64:
    """Which of so many numbers stand in some columns, ascending; -1 is none."""
    found = np.zeros(size + 1, np.bool_)  # the last: -1
    for column in columns:
        found[column] = True
    return np.flatnonzero(found[:-1])


def effective_times(news: CommitTable) -> Int64:
    """When each commit takes effect: at its own time, but never before one that stands before it in the log.

    `news` is in log order, source partition by source partition.
    """
    effective = news.at.copy()
    for source in np.unique(news.source).tolist():
        mine = news.source == source
        effective[mine] = np.maximum.accumulate(effective[mine])
    return effective


def _renumber(names: Iterable[str], numbers: dict[str, int]) -> Int64:
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
