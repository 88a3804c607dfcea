"""The rows of a bucket of groups in a batch, sorted by group."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.streaming.group import event_order
from levelwind.streaming.messages.lag_columns import LagRows, LagSamples
from levelwind.streaming.messages.rows import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from levelwind.streaming.group.event_order import GroupBatch
    from levelwind.streaming.messages.lag_columns import LagRow, LagSample


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketBatch:
    """The content of a batch for a bucket of groups."""

    samples: tuple[LagSamples, ...]
    """In any order, but those of a topic in that of their log."""
    lags: tuple[LagRows, ...]
    """A group's lag in a topic once at most."""
    rows: Mapping[str, Sequence[tuple[int, bytes]]]
    """By group, kind and payload of the rows that are about it alone."""

    @classmethod
    def of(cls, rows: Iterable[tuple[str, int, bytes]]) -> BucketBatch:
        """The batch of some rows, in any order: group, kind and payload."""
        samples: list[LagSamples] = []
        lags: list[LagRows] = []
        by_group: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        for group, kind, payload in rows:
            match kind:
                case Kind.LAG_SAMPLES:
                    samples.append(LagSamples.unpack(payload))
                case Kind.LAGS:
                    lags.append(LagRows.unpack(payload))
                case _:
                    by_group[group].append((kind, payload))
        return cls(samples=tuple(samples), lags=tuple(lags), rows=dict(by_group))

    def by_group(self, groups: Collection[str]) -> dict[str, GroupBatch]:
        """The batch of each of some groups, in order."""
        samples: dict[str, list[LagSample]] = defaultdict(list)
        lags: dict[str, list[LagRow]] = defaultdict(list)
        for sampled in self.samples:
            for group, row in _rows_of(sampled, groups):
                samples[group].append(sampled.sample(row))
        for rows in self.lags:
            for group, row in _rows_of(rows, groups):
                lags[group].append(rows.row(row))
        return {
            group: event_order.read_rows(
                self.rows.get(group, ()), samples.get(group, ()), lags.get(group, ())
            )
            for group in sorted(groups)
        }


def _rows_of(part: LagSamples | LagRows, groups: Collection[str]) -> Iterator[tuple[str, int]]:
    """The rows of some groups, each with its group."""
    wanted = np.array([group in groups for group in part.groups], np.bool_)
    for row in np.flatnonzero(wanted[part.group]).tolist():
        yield part.groups[part.group[row]], row
