"""The newest commit of every (group, partition) of one topic, as columns sorted by that key.

A commit is newer by its offset in the offsets topic, never by its clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec.structs import replace

from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic.commit_columns import (
    COLUMNS,
    GROUP_SHIFT,
    CommitColumns,
    UncountedCommits,
    no_entries,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from levelwind.streaming.messages.topic_columns import TopicCommits
    from levelwind.streaming.rules.event_time import Int64


BASELINES = ("old_baseline", "new_baseline", "sampled")


class CommitTable(CommitColumns, frozen=True, kw_only=True):
    """The newest commit of each group and partition, sorted by `code`."""

    ALL: ClassVar[tuple[str, ...]] = (*COLUMNS, *BASELINES)
    old_baseline: Int64
    """The committed offset at the first of the topic's two baselines; `UNKNOWN`: there was no
    commit then."""
    new_baseline: Int64
    """The committed offset at the second baseline; `UNKNOWN`: there was no commit then."""
    sampled: Int64
    """The committed offset that the last sample counts; `UNKNOWN`: it counts none."""

    @classmethod
    def empty(cls) -> CommitTable:
        """No commit at all."""
        columns: dict[str, Any] = dict.fromkeys(cls.ALL, no_entries())
        return cls(**columns)

    def with_new_baseline(self) -> CommitTable:
        """This table with its offsets as the new baseline; the former one is the old baseline."""
        return replace(self, old_baseline=self.new_baseline, new_baseline=self.offset)

    def with_sample(self) -> CommitTable:
        """This table with its offsets as those that the last sample counts."""
        return replace(self, sampled=self.offset)

    def with_groups(self, groups: Collection[str]) -> CommitTable:
        """This table with numbers for some groups, which may have no commit."""
        if not groups:
            return self
        names = tuple(dict.fromkeys((*self.groups, *groups)))
        return self if len(names) == len(self.groups) else replace(self, groups=names)

    def numbered(self, batches: Iterable[TopicCommits]) -> tuple[CommitTable, UncountedCommits]:
        """This table with the names of some commits added, and those commits under its numbers."""
        groups = dict(zip(self.groups, range(len(self.groups)), strict=True))
        ids = {name: number for number, name in enumerate(self.topic_ids)}
        parts: dict[str, list[Int64]] = {name: [] for name in COLUMNS}
        for batch in batches:
            group = _numbers_of(batch.groups, groups)[batch.group]
            # The last entry translates UNKNOWN, the index -1: no id.
            topic_id = np.append(_numbers_of(batch.topic_ids, ids), UNKNOWN)[batch.topic_id]
            parts["code"].append(group << GROUP_SHIFT | batch.partition)
            parts["topic_id"].append(topic_id)
            for name in ("offset", "at", "source", "position"):
                parts[name].append(getattr(batch, name))
        columns = {
            name: np.concatenate(part) if part else no_entries() for name, part in parts.items()
        }
        table = self.with_names(tuple(groups), tuple(ids))
        return table, UncountedCommits.in_log_order(table.groups, table.topic_ids, columns)

    def with_names(self, groups: tuple[str, ...], topic_ids: tuple[str, ...]) -> CommitTable:
        """This table with names that begin with its own."""
        if len(groups) == len(self.groups) and len(topic_ids) == len(self.topic_ids):
            return self
        return replace(self, groups=groups, topic_ids=topic_ids)

    def merged(self, news: UncountedCommits) -> CommitTable:
        """This table with newer commits in place of older ones; `news` has this table's numbers.

        A tombstone takes its entry away. A baseline is what was committed at its time, whatever has
        come since.
        """
        if not news.code.size:
            return self
        order = np.lexsort((news.position, news.code))
        last = np.append(np.diff(news.code[order]) != 0, True)[: order.size]
        news = news.take(order[last])
        index = np.searchsorted(self.code, news.code)
        known = np.zeros(index.size, np.bool_)
        inside = index < self.code.size
        known[inside] = self.code[index[inside]] == news.code[inside]
        columns: dict[str, Any] = {name: getattr(self, name) for name in self.ALL}
        if known.any():
            for name in COLUMNS[1:]:
                columns[name] = columns[name].copy()
                columns[name][index[known]] = getattr(news, name)[known]
        if not known.all():
            columns = _with_rows(columns, index[~known], news.take(~known))
        merged = replace(self, **columns)
        return merged.take(merged.offset >= 0) if (news.offset < 0).any() else merged


def compacted(
    commits: CommitTable, uncounted: UncountedCommits
) -> tuple[CommitTable, UncountedCommits]:
    """Two tables with the same names, without those that no entry of either uses."""
    groups = used([commits.group, uncounted.group], len(commits.groups))
    ids = used([commits.topic_id, uncounted.topic_id], len(commits.topic_ids))
    if groups.size == len(commits.groups) and ids.size == len(commits.topic_ids):
        return commits, uncounted
    return commits.renumbered(groups, ids), uncounted.renumbered(groups, ids)


def used(columns: Iterable[Int64], size: int) -> Int64:
    """The numbers below `size` that some columns contain, ascending; `UNKNOWN` is none."""
    found = np.zeros(size + 1, np.bool_)  # the last: UNKNOWN
    for column in columns:
        found[column] = True
    return np.flatnonzero(found[:-1])


def _with_rows(
    columns: Mapping[str, Int64], before: Int64, rows: UncountedCommits
) -> dict[str, Int64]:
    """Columns with some commits inserted before the given indexes, ascending.

    The commits have no baselines.
    """
    inserted = before + np.arange(before.size)
    size = columns["code"].size + before.size
    kept = np.ones(size, np.bool_)
    kept[inserted] = False
    grown: dict[str, Int64] = {}
    for name, column in columns.items():
        grown[name] = np.full(size, UNKNOWN, np.int64)
        grown[name][kept] = column
        if name in COLUMNS:
            grown[name][inserted] = getattr(rows, name)
    return grown


def _numbers_of(names: Iterable[str], numbers: dict[str, int]) -> Int64:
    """The number of each name; a name that has none yet gets the next."""
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
