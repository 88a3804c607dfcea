"""The rows of a bucket of groups in a batch, sorted by group."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.streaming.group import event_order
from levelwind.streaming.messages.lag_columns import LagRows, LagSamples
from levelwind.streaming.messages.rows import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from levelwind.streaming.group.event_order import GroupBatch
    from levelwind.streaming.messages.lag_columns import LagRow, LagSample


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketBatch:
    """The content of a batch for a bucket of groups."""

    samples: tuple[LagSamples, ...]
    """In the order in which they take effect."""
    lags: tuple[LagRows, ...]
    """Of each topic one row at most names a group."""
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
        samples.sort(key=lambda sample: (sample.at, sample.topic))
        return cls(samples=tuple(samples), lags=tuple(lags), rows=dict(by_group))

    def by_group(self, groups: Collection[str]) -> dict[str, GroupBatch]:
        """The batch of each of some groups, in order."""
        samples: dict[str, list[LagSample]] = defaultdict(list)
        lags: dict[str, list[LagRow]] = defaultdict(list)
        for sampled in self.samples:
            for index, group in enumerate(sampled.groups):
                if group in groups:
                    samples[group].append(sampled.sample(index))
        for rows in self.lags:
            for index, group in enumerate(rows.groups):
                if group in groups:
                    lags[group].append(rows.row(index))
        return {
            group: event_order.read_rows(
                self.rows.get(group, ()), samples.get(group, ()), lags.get(group, ())
            )
            for group in sorted(groups)
        }
