"""Fleet and world of a simulation: consumers and partitions at the start, arrivals, and events.

Guarantees: partitions are numbered as in `levelwind.assignors.problem.group.Group` (topics in
Kafka's order, then by partition), consumers in the order of their ids. All strategies get the same
`World`, and nothing in it depends on what any of them does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np

from levelwind.assignors.problem.columns import Bools, Floats, Ints, Longs, in_java_order, starts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import TopicPartition

Racks: TypeAlias = "tuple[tuple[str, ...], ...]"
"""Racks of the replicas by partition; empty where they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A member of the group, present from the start or joining later."""

    id: str
    topics: tuple[str, ...] | Literal["*"]
    rack: str | None = None
    capacity: float = 1.0
    """Announced relative speed."""
    priority: int = 2**31 - 1
    container: str | None = None
    instance_id: str | None = None
    speed: float | None = None
    """Records that it reads per second; None: what its capacity makes of the fleet's speed."""

    def reads_per_second(self, unit: float) -> float:
        """Records that it reads per second, where a consumer of capacity 1 reads `unit`."""
        return self.capacity * unit if self.speed is None else self.speed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fleet:
    """P partitions and M consumers at the start."""

    topics: tuple[str, ...]
    topic_start: Longs
    """T+1: first partition of each topic and, last, the number of partitions, as in `Group`."""
    consumers: tuple[Consumer, ...]
    """M: by id."""
    present: Bools
    """M: whether the consumer runs at the start."""
    racks: Racks
    """P: racks of the replicas."""
    owner: Ints
    """P: owner before the first plan; -1 for nobody."""
    backlog: Longs
    """P: records behind at the start."""
    record_bytes: Floats
    """P: bytes of one record."""
    speed: float
    """Records that a consumer of capacity 1 reads per second, if it has no speed of its own."""

    @property
    def partitions(self) -> int:
        """P, the number of partitions."""
        return int(self.topic_start[-1])

    def names(self, partitions: Longs) -> frozenset[TopicPartition]:
        """Return the topic of some partitions, and their numbers in it."""
        topic = np.searchsorted(self.topic_start, partitions, side="right") - 1
        numbers = partitions - self.topic_start[topic]
        return frozenset(zip([self.topics[t] for t in topic], numbers.tolist(), strict=True))

    @classmethod
    def build(
        cls,
        *,
        topics: Mapping[str, int],
        consumers: Sequence[Consumer],
        speed: float,
        racks: Mapping[str, Sequence[Sequence[str]]] | None = None,
        absent: frozenset[str] = frozenset(),
        owned: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
        backlog: Mapping[str, Sequence[int]] | None = None,
        record_bytes: Mapping[str, float] | None = None,
    ) -> Fleet:
        """Lay out a fleet; topics and consumers may be missing from a mapping by topic or by id."""
        names = in_java_order(topics)
        by_id = {consumer.id: consumer for consumer in consumers}
        ordered = [by_id[name] for name in in_java_order(by_id)]
        bounds = starts([topics[name] for name in names])
        owner = np.full(int(bounds[-1]), -1, dtype=np.int32)
        for member, consumer in enumerate(ordered):
            for topic, numbers in (owned or {}).get(consumer.id, {}).items():
                if topic in topics:
                    owner[bounds[names.index(topic)] + np.array(numbers, dtype=np.int64)] = member
        replica_racks: list[tuple[str, ...]] = []
        behind = np.zeros(int(bounds[-1]), dtype=np.int64)
        size = np.ones(int(bounds[-1]))
        for name, begin, end in zip(names, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = list((racks or {}).get(name) or ())[: end - begin]
            replica_racks += [tuple(sorted(set(row))) for row in rows] + [()] * (
                end - begin - len(rows)
            )
            lags = list((backlog or {}).get(name) or ())[: end - begin]
            behind[begin : begin + len(lags)] = lags
            size[begin:end] = (record_bytes or {}).get(name, 1.0)
        return cls(
            topics=tuple(names),
            topic_start=bounds,
            consumers=tuple(ordered),
            present=np.array([consumer.id not in absent for consumer in ordered], dtype=np.bool_),
            racks=tuple(replica_racks),
            owner=owner,
            backlog=behind,
            record_bytes=size,
            speed=speed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A consumer starts."""

    at: float
    """Seconds from the start of the world, as in every event."""
    member: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A consumer stops."""

    at: float
    member: int
    announced: bool = True
    """Whether the consumer announced its end; otherwise only its silence reveals it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """A consumer reads at this share of its speed from now on, unannounced."""

    at: float
    member: int
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Replicas are in other racks from now on."""

    at: float
    racks: Mapping[int, tuple[str, ...]]
    """New racks by partition."""


Event: TypeAlias = Joined | Left | Slowed | Moved


class Arrivals(Protocol):
    """Records written to the partitions."""

    def block(self, first: int, ticks: int) -> Longs:
        """Records that arrive in each tick from `first` on, ticks x P.

        Blocks are requested in order, from tick 0 on, once each.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """Everything that the strategies share."""

    name: str
    fleet: Fleet
    arrivals: Arrivals
    events: tuple[Event, ...]
    """Events by time."""
    ticks: int
    """Number of ticks."""
    tick: float
    """Seconds of one tick."""

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.ticks * self.tick
