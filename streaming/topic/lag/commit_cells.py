"""Commits of several topics as matrices, with a row for each topic and group that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic.commit_columns import GROUP_SHIFT, PARTITION_MASK
from levelwind.streaming.topic.state import TopicState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from levelwind.streaming.rules.event_time import Int64
    from levelwind.streaming.topic.commit_table import CommitTable


class LagRequest(Struct, frozen=True, kw_only=True, eq=False):
    """Groups whose lag in a topic is asked for, as of one state of the topic."""

    topic: str
    state: TopicState
    numbers: list[int]
    """The groups' numbers, ascending; at least one."""

    def equals(self, other: LagRequest) -> bool:
        """Whether another request of the topic asks for the same.

        It does for the same groups while no commit and no sample has come in between: values of a
        state are replaced and never changed.
        """
        state, before = self.state, other.state
        return (
            before.commits is state.commits
            and before.history is state.history
            and before.id == state.id
            and self.numbers == other.numbers
        )

    @property
    def groups(self) -> list[str]:
        """The groups' names."""
        return list(map(self.state.commits.groups.__getitem__, self.numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRows:
    """The rows of some requests: those of the first, then those of the next.

    All requests are of topics with the same number of partitions.
    """

    requests: Sequence[LagRequest]
    partitions: int
    first: list[int]
    """The first row of each request."""
    request: Int64
    """The request of each row."""

    @classmethod
    def of(cls, requests: Sequence[LagRequest]) -> RequestRows:
        """The rows of some requests; at least one."""
        counts = [len(request.numbers) for request in requests]
        return cls(
            requests=requests,
            partitions=requests[0].state.stable.size,
            first=[0, *accumulate(counts)][:-1],
            request=np.repeat(np.arange(len(requests)), counts),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a matrix, rows by partitions."""
        return self.request.size, self.partitions

    def by_row(self, by_request: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What the first axis has for each request, for each row; one request's fits all rows."""
        return by_request if len(self.requests) == 1 else by_request[self.request]

    def by_partition(self, column: Callable[[TopicState], Int64]) -> Int64:
        """A column of each topic that is indexed by partition, as a matrix that fits the rows."""
        matrix: Int64 = self.by_row(stacked([column(request.state) for request in self.requests]))
        return matrix

    def numbers(self, value: Callable[[TopicState], int]) -> Int64:
        """A number of each topic, as a matrix of one column that fits the rows."""
        column = np.array([[value(request.state)] for request in self.requests], np.int64)
        matrix: Int64 = self.by_row(column)
        return matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCells:
    """The cells of a matrix, rows by partitions, that entries of the topics' commits fill.

    An entry is one of all tables together, in the order of the requests.
    """

    shape: tuple[int, int]
    tables: Sequence[CommitTable]
    entry: Int64
    """The entries that have a cell in the matrix."""
    cell: Int64
    """The cell of each of these entries, counted row after row."""
    row: Int64
    """The row of every entry; `UNKNOWN`: its group is not asked for."""

    @classmethod
    def of(cls, rows: RequestRows, tables: Sequence[CommitTable]) -> CommitCells:
        """The cells of the requests' groups in as many tables."""
        code = joined([table.code for table in tables])
        topic_id = joined([table.topic_id for table in tables])
        # Groups and topic ids of all tables get numbers of their own.
        sizes = [table.code.size for table in tables]
        group_at = [0, *accumulate(len(table.groups) for table in tables)]
        id_at = [0, *accumulate(len(table.topic_ids) + 1 for table in tables)]
        row_of = np.full(group_at[-1], UNKNOWN, np.int64)
        asked = np.array(
            list(chain.from_iterable([request.numbers for request in rows.requests])), np.int64
        )
        row_of[asked + np.array(group_at)[rows.request]] = np.arange(rows.request.size)
        # Of each topic first the place of UNKNOWN: a commit without an id may be the topic's.
        of_topic = np.array(
            list(
                chain.from_iterable(
                    (True, *(name == request.state.id for name in table.topic_ids))
                    for request, table in zip(rows.requests, tables, strict=True)
                )
            ),
            np.bool_,
        )
        row = row_of[(code >> GROUP_SHIFT) + np.repeat(group_at[:-1], sizes)]
        partition = code & PARTITION_MASK
        fits = of_topic[topic_id + np.repeat([at + 1 for at in id_at[:-1]], sizes)]
        fits &= (partition < rows.partitions) & (row != UNKNOWN)
        entry = np.flatnonzero(fits)
        return cls(
            shape=rows.shape,
            tables=tables,
            entry=entry,
            cell=row[entry] * rows.partitions + partition[entry],
            row=row,
        )

    def column(self, name: str) -> Int64:
        """A column of all tables together."""
        return joined([getattr(table, name) for table in self.tables])

    def fill(self, column: Int64) -> Int64:
        """A column of the commits as a matrix, `UNKNOWN` where there is no commit."""
        matrix = np.full(self.shape, UNKNOWN, np.int64)
        matrix.reshape(-1)[self.cell] = column[self.entry]
        return matrix


def joined(columns: Sequence[Int64]) -> Int64:
    """Columns as one; at least one."""
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def stacked(columns: Sequence[Int64]) -> Int64:
    """Columns of the same length as the rows of a matrix; at least one.

    Of many short ones NumPy's own `stack` makes views first, for 1 us each.
    """
    return joined(columns).reshape(len(columns), columns[0].size)
