"""Inputs of a problem: topics and members by name, not yet checked.

`Group.build` and `TopicIndex.of` check the inputs and turn them into columns; both raise
`ProblemError` for an input that they refuse.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


class ProblemError(ValueError):
    """Invalid problem; the message names the topic or member, the field, and what is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as a planner sees it; every sequence is indexed by partition number."""

    partitions: int
    """Number of partitions."""
    replica_racks: Sequence[Collection[str]] | None = None
    """Racks of each partition's replicas; None or an empty collection where racks are unknown."""
    lags: Sequence[int] | None = None
    """Records behind the log end, by partition; None counts as 0."""
    rates: Sequence[float] | None = None
    """Records that arrive per second, by partition; None counts as 0."""
    bytes: Sequence[float] | None = None
    """Bytes that arrive per second, by partition: the cost of reading from another rack; None
    counts as 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group, as it describes itself when it joins."""

    id: str
    """Member id, unique in the group."""
    topics: Sequence[str] | Literal["*"]
    """Subscribed topics; `"*"` subscribes to every topic of the problem."""
    rack: str | None = None
    """Rack of the member (`client.rack`); None where it is unknown."""
    owned: Mapping[str, Sequence[int]] | None = None
    """Claimed partition numbers by topic; None if the member never had an assignment."""
    generation: int = -1
    """Generation of the claims; -1 if unknown. Of two readers, the higher generation wins."""
    instance_id: str | None = None
    """Static identity (`group.instance.id`, KIP-345)."""
    priority: int = 2**31 - 1
    """Priority for `failover`; the highest number comes first, and a member without one has the
    highest."""
    capacity: float = 1.0
    """Announced capacity above 0, relative to the other members."""
    speed: float | None = None
    """Records that the member reads per second when it never waits for any; None where unknown."""
    container: str | None = None
    """Container that the member runs in, for `topic-roundrobin`; None where it is unknown."""
