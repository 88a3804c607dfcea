"""What is simulated: the consumers and partitions at the start, what arrives, and what happens when.

Law: partitions are numbered as `assignors.group.Group` numbers them (topics in Kafka's order, then by number), consumers in
the order of their ids; all strategies get the same `World`, and nothing in it depends on what any of them does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np

from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
    in_java_order,
    starts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Racks: TypeAlias = "tuple[tuple[str, ...], ...]"
"""By partition, the racks of its replicas; none where they are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A member of the group, there or still to come."""

    id: str
    topics: tuple[str, ...] | Literal["*"]
    rack: str | None = None
    capacity: float = 1.0
    """What it says of its own speed."""
    priority: int = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fleet:
    """P partitions and M consumers at the start."""

    topics: tuple[str, ...]
    topic_start: Longs  # T+1, as the group's
    consumers: tuple[Consumer, ...]  # M
    present: Bools  # M: there at the start
    racks: Racks  # P
    owner: Ints  # P: before the first plan, -1 nobody
    backlog: Longs  # P: records behind at the start
    record_bytes: Floats  # P: bytes of one record
    speed: float  # records a second that a consumer of capacity 1 reads

    @property
    def partitions(self) -> int:
        """P."""
        return int(self.topic_start[-1])

    @classmethod
    def made(
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
        """Lay a fleet out: everything by topic, or by consumer's id, may leave out what is not known."""
        names = in_java_order(topics)
        of = {consumer.id: consumer for consumer in consumers}
        people = [of[name] for name in in_java_order(of)]
        bounds = starts([topics[name] for name in names])
        owner = np.full(int(bounds[-1]), -1, dtype=np.int32)
        for member, consumer in enumerate(people):
            for topic, numbers in (owned or {}).get(consumer.id, {}).items():
                if topic in topics:
                    owner[bounds[names.index(topic)] + np.array(numbers, dtype=np.int64)] = member
        sets: list[tuple[str, ...]] = []
        behind = np.zeros(int(bounds[-1]), dtype=np.int64)
        size = np.ones(int(bounds[-1]))
        for name, begin, end in zip(names, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            said = list((racks or {}).get(name) or ())[: end - begin]
            sets += [tuple(sorted(set(one))) for one in said] + [()] * (end - begin - len(said))
            lags = list((backlog or {}).get(name) or ())[: end - begin]
            behind[begin : begin + len(lags)] = lags
            size[begin:end] = (record_bytes or {}).get(name, 1.0)
        return cls(
            topics=tuple(names),
            topic_start=bounds,
            consumers=tuple(people),
            present=np.array([consumer.id not in absent for consumer in people], dtype=np.bool_),
            racks=tuple(sets),
            owner=owner,
            backlog=behind,
            record_bytes=size,
            speed=speed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A consumer starts."""

    at: float
    member: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A consumer stops."""

    at: float
    member: int
    told: bool = True
    """It said so; otherwise it is missed only when it was silent for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """A consumer reads at this share of its speed from now on, and nobody is told."""

    at: float
    member: int
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Replicas stand in other racks from now on."""

    at: float
    racks: Mapping[int, tuple[str, ...]]  # by partition


Event: TypeAlias = Joined | Left | Slowed | Moved


class Arrivals(Protocol):
    """What is written to the partitions."""

    def block(self, first: int, ticks: int) -> Longs:
        """Ticks x P: the records that arrive in each tick from `first` on; asked for in order, from 0, once each."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """All that the strategies have in common."""

    name: str
    fleet: Fleet
    arrivals: Arrivals
    events: tuple[Event, ...]  # by time
    ticks: int
    tick: float  # seconds

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.ticks * self.tick
