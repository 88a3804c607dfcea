"""What a problem is posed in: topics and members as whoever plans knows them, not yet checked.

`Group.build` and `Catalogue.of` check them and turn them into columns. What they refuse they refuse with `ProblemError`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


class ProblemError(ValueError):
    """A problem that cannot be posed; the message says whose field is wrong and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as a planner sees it: sequences are indexed by partition number."""

    partitions: int
    replica_racks: Sequence[Collection[str]] | None = None
    lags: Sequence[int] | None = None
    rates: Sequence[float] | None = None
    bytes: Sequence[float] | None = None  # a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group and what it says of itself."""

    id: str
    topics: Sequence[str] | Literal["*"]
    rack: str | None = None
    owned: Mapping[str, Sequence[int]] | None = None  # None: it never had an assignment
    generation: int = -1
    instance_id: str | None = None
    priority: int = 2**31 - 1
    capacity: float = 1.0
    container: str | None = None
