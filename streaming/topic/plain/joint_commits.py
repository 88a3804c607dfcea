"""Commits of several topics as one table, and commits that wait to be counted into it.

Groups have numbers of their own there, those of the first topic first, so that the key of a commit
is one of all topics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np

from levelwind.streaming.topic.commit_columns import (
    COLUMNS,
    GROUP_SHIFT,
    KEY,
    UncountedCommits,
    no_entries,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.streaming.rules.event_time import Int64, Mask
    from levelwind.streaming.topic.commit_table import CommitTable
    from levelwind.streaming.topic.plain.plain_batch import PlainBatch

VALUES = tuple(name for name in COLUMNS if name != KEY)
"""The columns that a newer commit replaces."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointTable:
    """The counted commits of some topics, sorted by topic and key."""

    first_group: Int64
    """By topic, the number of its first group."""
    code: Int64
    bounds: list[int]
    """Where the commits of each topic begin, and the end of the last."""
    values: Mapping[str, Int64]
    """The columns in `VALUES`."""

    @classmethod
    def of(cls, tables: Sequence[CommitTable]) -> JointTable:
        """The commits of as many topics; at least one."""
        sizes = [table.code.size for table in tables]
        groups = [0, *accumulate([len(table.groups) for table in tables])]
        first_group = np.array(groups[:-1], np.int64)
        code = np.concatenate([table.code for table in tables])
        return cls(
            first_group=first_group,
            code=code + np.repeat(first_group << GROUP_SHIFT, sizes),
            bounds=[0, *accumulate(sizes)],
            values={
                name: np.concatenate([getattr(table, name) for table in tables]) for name in VALUES
            },
        )

    def merged(self, news: WaitingCommits) -> JointTable:
        """This table with newer commits in place of older ones; see `CommitTable.merged`."""
        if not news.topic.size:
            return self
        order = np.lexsort((news.values["position"], news.entry))
        entry = news.entry[order]
        last = np.append(entry[1:] != entry[:-1], True)
        rows, entry = order[last], entry[last]
        values = {}
        for name, column in self.values.items():
            values[name] = column.copy()
            values[name][entry] = news.values[name][rows]
        return replace(self, values=values)

    def of_topic(self, topic: int) -> dict[str, Any]:
        """The columns in `VALUES` of a topic's commits."""
        first, last = self.bounds[topic], self.bounds[topic + 1]
        return {name: column[first:last] for name, column in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitingCommits:
    """Commits that wait to be counted, topic after topic, each in log order."""

    topic: Int64
    """The topic of each."""
    code: Int64
    """The key of each in the joint table."""
    entry: Int64
    """Where the joint table has, or would have, each commit's key."""
    values: Mapping[str, Int64]
    """The columns in `VALUES`."""

    @classmethod
    def of(cls, batches: Sequence[PlainBatch], table: JointTable) -> WaitingCommits:
        """The commits that wait in the topics' states, and those of their batches."""
        waiting = [batch.state.uncounted_commits for batch in batches]
        news = list(chain.from_iterable(batch.commits for batch in batches))
        of_news = [t for t, batch in enumerate(batches) for _ in batch.commits]
        sizes = [part.group.size for part in news]
        topic = np.repeat(
            [*range(len(batches)), *of_news], [*(part.code.size for part in waiting), *sizes]
        )
        numbers = list(chain.from_iterable(batch.numbers for batch in batches))
        first = np.array([0, *accumulate(map(len, numbers))][:-1], np.int64)
        number = np.array([*chain.from_iterable(numbers)], np.int64)
        columns: dict[str, Int64] = {
            name: _joined([*(getattr(part, name) for part in (*waiting, *news))]) for name in VALUES
        }
        of_group = number[
            _joined([part.group for part in news]) + np.repeat(first, np.array(sizes, np.int64))
        ]
        code = _joined(
            [
                *(part.code for part in waiting),
                of_group << GROUP_SHIFT | _joined([part.partition for part in news]),
            ]
        )
        code = code + (table.first_group[topic] << GROUP_SHIFT)
        order = np.lexsort((columns["position"], columns["source"], topic))
        code = code[order]
        return cls(
            topic=topic[order],
            code=code,
            entry=np.searchsorted(table.code, code),
            values={name: column[order] for name, column in columns.items()},
        )

    def take(self, rows: Mask) -> WaitingCommits:
        """Some of these commits."""
        return WaitingCommits(
            topic=self.topic[rows],
            code=self.code[rows],
            entry=self.entry[rows],
            values={name: column[rows] for name, column in self.values.items()},
        )

    def plain(self, batches: Sequence[PlainBatch], table: JointTable) -> Mask:
        """By topic, whether each of its commits replaces an older one with as good a topic id."""
        known = self.entry < table.code.size
        known[known] = table.code[self.entry[known]] == self.code[known]
        ids = np.array([len(batch.state.commits.topic_ids) - 1 for batch in batches], np.int64)
        fits = known & (self.values["offset"] >= 0)
        fits &= self.values["topic_id"] == ids[self.topic]
        plain = np.ones(len(batches), np.bool_)
        plain[self.topic[~fits]] = False
        return plain

    def by_topic(self, tables: Sequence[CommitTable], table: JointTable) -> list[UncountedCommits]:
        """The commits of each topic, with the names of its table."""
        bounds = np.searchsorted(self.topic, np.arange(len(tables) + 1)).tolist()
        code = self.code - (table.first_group[self.topic] << GROUP_SHIFT)
        return [
            UncountedCommits(
                groups=names.groups,
                topic_ids=names.topic_ids,
                code=code[first:last],
                **{name: column[first:last] for name, column in self.values.items()},
            )
            for names, first, last in zip(tables, bounds, bounds[1:], strict=False)
        ]


def _joined(columns: Sequence[Int64]) -> Int64:
    """Columns as one; there may be none."""
    return np.concatenate(columns) if columns else no_entries()
