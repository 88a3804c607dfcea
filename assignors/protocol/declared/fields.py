"""Types of the fields of records, each with its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypeVar

from msgspec import Meta

from levelwind.assignors.problem.columns import LEAST_FIGURE, MOST_FIGURE
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.canonical_json import LATEST_MS, MAX_INT64
from levelwind.assignors.protocol.declared.marks import SHORTENED, Among, Indexed, Shape
from levelwind.assignors.protocol.declared.numbers import short_column
from levelwind.assignors.protocol.partition_ranges import MAX_PARTITIONS, Partitions, WireError

Item = TypeVar("Item")

Key: TypeAlias = tuple[str | int, ...]
"""A record's key: its kind, and the names of its subjects."""

LAST_EPOCH = 2**40
"""Highest epoch of any record.

A planner that publishes a thousand epochs a second reaches it after 34 years. A member that claims
a higher one is refused, so that nobody can push the planner's counter to its end.
"""
LEAST_CAPACITY, MOST_CAPACITY = 1e-6, 1e6
"""Bounds of a capacity: plans divide by it, and add what they divided."""
MOST_CHARACTERS = 1024
"""Longest name or version that an announcement may have."""

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
ShortName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MOST_CHARACTERS)]
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INT64)]
Offset: TypeAlias = Annotated[int, Meta(ge=-1, le=MAX_INT64)]
"""An offset, a time or an index; -1 for none."""
Time: TypeAlias = Annotated[int, Meta(ge=0, le=LATEST_MS)]
"""Milliseconds since the epoch, up to the end of the year 9999."""
Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=LAST_EPOCH)]
Rank: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Number: TypeAlias = Annotated[float, SHORTENED]
Figure: TypeAlias = Annotated[float, Meta(ge=0, le=MOST_FIGURE), SHORTENED]
Speed: TypeAlias = Annotated[float, Meta(ge=LEAST_FIGURE, le=MOST_FIGURE), SHORTENED]
Ratio: TypeAlias = Annotated[float, Meta(ge=0, le=1), SHORTENED]
Capacity: TypeAlias = Annotated[float, Meta(ge=LEAST_CAPACITY, le=MOST_CAPACITY)]
ByPartition: TypeAlias = Annotated[tuple[Item, ...], Indexed("partitions")]
"""A list by partition."""
Figures: TypeAlias = Annotated[
    tuple[float | None, ...],
    Shape(tuple[Figure | None, ...], write=short_column),
    Indexed("partitions"),
]
"""Figures by partition; None where a partition has none."""
SomePartitions: TypeAlias = Annotated[tuple[Whole, ...], Among("partitions")]
"""Some of the partitions that the lists are indexed by."""


def _read_share(texts: dict[str, str], limit: int = MAX_PARTITIONS) -> Partitions:
    """The partitions of ranges by topic: at most `limit` in all topics together."""
    share: dict[str, tuple[int, ...]] = {}
    for topic, text in texts.items():
        share[topic] = ranges.parse(text, limit=limit)
        limit -= len(share[topic])
        if not (topic and share[topic]):
            raise WireError("expected named topics with partitions")
    return share


def _read_shares(texts: dict[str, dict[str, str]]) -> dict[str, Partitions]:
    """Shares by name: at most `MAX_PARTITIONS` in all of them together."""
    limit = MAX_PARTITIONS
    shares: dict[str, Partitions] = {}
    for name, share in texts.items():
        if not name:
            raise WireError("expected named shares")
        shares[name] = _read_share(share, limit)
        limit -= sum(map(len, shares[name].values()))
    return shares


def _write_shares(shares: Mapping[str, Partitions]) -> dict[str, dict[str, str]]:
    return {name: ranges.texts(share) for name, share in shares.items()}


_RANGES = Annotated[
    str, Meta(extra_json_schema={"pattern": "^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"})
]
_BY_TOPIC = dict[Name, _RANGES]
Share: TypeAlias = Annotated[Partitions, Shape(_BY_TOPIC, _read_share, ranges.texts)]
"""Partitions by topic, written as ranges."""
Shares: TypeAlias = Annotated[
    Mapping[str, Partitions], Shape(dict[Name, _BY_TOPIC], _read_shares, _write_shares)
]
"""Partitions by name and topic."""
