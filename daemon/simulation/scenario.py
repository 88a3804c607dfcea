"""Scenarios: worlds generated from a seed.

The same seed and sizes give the same world, to the record.

Every scenario has five topics, replicas in two of three racks, and consumers spread over the racks.
The mean load is `utilisation`; all other properties of a scenario are in its `Mix`. The rates are
drawn at the start, and the records of each block of ticks by a random generator of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.problem.inputs import ProblemError
from levelwind.daemon.simulation.fleet import (
    Consumer,
    Event,
    Fleet,
    Joined,
    Left,
    Moved,
    Slowed,
    World,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.problem.columns import Bools, Floats, Longs

RACKS = ("a", "b", "c")
TOPICS = 5
HOUR_SECONDS = 3600.0
STEP_SECONDS = 600.0
"""Seconds between two points of a partition's rate, which is linear between them."""
RECORD_BYTES = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Ingredients of a scenario."""

    spread: float = 0.0
    """Sigma of the logarithms of the partitions' mean rates."""
    drift: float = 0.0
    """Sigma of the logarithm's random walk over a day."""
    daily: float = 0.0
    """Amplitude of the daily cycle of the rates, as a share of their mean."""
    bursts: float = 0.0
    """Bursts per hour; each multiplies the rates of one topic."""
    hot: float = 0.0
    """Share of all records that goes to a few partitions, which change over time."""
    slow: float = 0.0
    """Share of the consumers with half the capacity; as many slow down unannounced."""
    churn: float = 0.0
    """Consumers per hour that stop and come back."""
    racks: int = 0
    """Number of times that replicas move to other racks."""


SCENARIOS: Mapping[str, Mix] = {
    "day": Mix(
        spread=0.6, drift=0.5, daily=0.3, bursts=0.25, hot=0.05, slow=0.1, churn=0.5, racks=2
    ),
    "steady": Mix(),
    "drift": Mix(spread=0.6, drift=0.8, daily=0.3),
    "bursts": Mix(spread=0.3, bursts=1.0),
    "hot": Mix(spread=0.3, hot=0.15),
    "slow": Mix(spread=0.3, slow=0.2),
    "churn": Mix(spread=0.3, churn=4.0),
    "racks": Mix(spread=0.3, racks=2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size, duration and load of a scenario."""

    partitions: int = 1000
    members: int = 50
    hours: float = 24.0
    tick: float = 5.0
    """Seconds of one tick."""
    utilisation: float = 0.6
    """Mean arrivals as a share of all consumers' speed."""
    rate: float = 100.0
    """Mean records that arrive per second in a partition."""

    @property
    def ticks(self) -> int:
        """Number of ticks."""
        return round(self.hours * HOUR_SECONDS / self.tick)


class DrawnArrivals:
    """Poisson arrivals around rates given at points `STEP_SECONDS` apart."""

    def __init__(self, rates: Floats, tick: float, seed: int) -> None:
        self._rates, self._tick, self._seed = rates, tick, seed

    def block(self, first: int, ticks: int) -> Longs:
        """Draw the records of a block of ticks, ticks x P."""
        at = (np.arange(first, first + ticks) + 0.5) * self._tick / STEP_SECONDS
        low = np.minimum(at.astype(np.int64), len(self._rates) - 2)
        share = (at - low)[:, None]
        mean = self._rates[low] * (1 - share) + self._rates[low + 1] * share
        draw = np.random.default_rng([self._seed, 1, first])
        return np.asarray(draw.poisson(mean * self._tick), dtype=np.int64)


def generate_world(name: str, size: Size, seed: int) -> World:
    """Generate the world of a named scenario.

    Raises:
        ProblemError: the name is unknown, or the duration is shorter than a tick.
    """
    if name not in SCENARIOS:
        raise ProblemError(f"scenario {name!r} is unknown; there are {', '.join(SCENARIOS)}")
    mix = SCENARIOS[name]
    if size.ticks < 1:
        raise ProblemError(f"hours {size.hours:g}: shorter than a tick of {size.tick:g} s")
    draw = np.random.default_rng([seed, 0])
    fleet = _fleet(mix, size, draw)
    rates = _rates(mix, fleet, size, draw)
    events = _events(mix, fleet, size, draw)
    return World(
        name=f"{name}, seed {seed}",
        fleet=fleet,
        arrivals=DrawnArrivals(rates, size.tick, seed),
        events=tuple(sorted(events, key=lambda event: event.at)),
        ticks=size.ticks,
        tick=size.tick,
    )


def _fleet(mix: Mix, size: Size, draw: np.random.Generator) -> Fleet:
    counts = [size.partitions // TOPICS + (n < size.partitions % TOPICS) for n in range(TOPICS)]
    topics = {f"topic-{number}": count for number, count in enumerate(counts) if count}
    half_capacity = set(draw.permutation(size.members)[: round(mix.slow * size.members)].tolist())
    consumers = [
        Consumer(
            id=f"member-{number:04}",
            topics="*",
            rack=RACKS[number % len(RACKS)],
            capacity=0.5 if number in half_capacity else 1.0,
        )
        for number in range(size.members)
    ]
    capacity = sum(consumer.capacity for consumer in consumers)
    racks = {name: [_two_racks(draw) for _ in range(count)] for name, count in topics.items()}
    return Fleet.build(
        topics=topics,
        consumers=consumers,
        racks=racks,
        speed=size.rate * size.partitions / capacity / size.utilisation,
        record_bytes=dict.fromkeys(topics, RECORD_BYTES),
    )


def _two_racks(draw: np.random.Generator) -> tuple[str, ...]:
    return tuple(RACKS[rack] for rack in draw.permutation(len(RACKS))[:2].tolist())


def _rates(mix: Mix, fleet: Fleet, size: Size, draw: np.random.Generator) -> Floats:
    """Draw the rates in records per second, points x P."""
    count = fleet.partitions
    points = ceil(size.hours * HOUR_SECONDS / STEP_SECONDS) + 2
    time = np.arange(points, dtype=np.float64) * STEP_SECONDS
    weight = np.exp(draw.normal(0, 1, count) * mix.spread)
    steps = (
        draw.normal(0, 1, (points, count)) * mix.drift * np.sqrt(STEP_SECONDS / (24 * HOUR_SECONDS))
    )
    rates = weight * np.exp(np.cumsum(steps, axis=0))
    topic = np.repeat(np.arange(len(fleet.topics)), np.diff(fleet.topic_start))
    phase = draw.uniform(0, 0.25, len(fleet.topics))
    rates *= 1 - mix.daily * np.cos(
        2 * np.pi * (time[:, None] / (24 * HOUR_SECONDS) - phase[topic])
    )
    rates *= size.rate * count / rates.sum(axis=1).mean()
    for _ in range(draw.poisson(mix.bursts * size.hours)):
        _burst(rates, time, topic == draw.integers(len(fleet.topics)), draw)
    if mix.hot:
        _heat(rates, mix, size, draw)
    return np.asarray(rates, dtype=np.float64)


def _burst(rates: Floats, time: Floats, of_topic: Bools, draw: np.random.Generator) -> None:
    begin = draw.uniform(0, time[-1])
    seconds = draw.uniform(600, 1800)
    during = (time >= begin) & (time < begin + seconds)
    rates[np.ix_(during, of_topic)] *= draw.uniform(2, 4)


def _heat(rates: Floats, mix: Mix, size: Size, draw: np.random.Generator) -> None:
    """Add hot partitions, which change every four hours.

    There is one hot partition for ten members, and none takes more than half a member's speed.
    """
    hot_count = max(size.members // 10, 1)
    speed = size.rate * size.partitions / size.members / size.utilisation
    extra = min(mix.hot * size.rate * size.partitions / hot_count, speed / 2)
    period = round(4 * HOUR_SECONDS / STEP_SECONDS)
    for begin in range(0, len(rates), period):
        hot = draw.permutation(rates.shape[1])[:hot_count]
        rates[begin : begin + period, hot] += extra


def _events(mix: Mix, fleet: Fleet, size: Size, draw: np.random.Generator) -> list[Event]:
    length, members = size.hours * HOUR_SECONDS, len(fleet.consumers)
    events: list[Event] = []
    for member in draw.permutation(members)[: round(mix.slow * members)].tolist():
        begin = float(draw.uniform(0, length))
        events += [
            Slowed(at=begin, member=member, factor=float(draw.uniform(0.4, 0.8))),
            Slowed(at=begin + float(draw.uniform(1800, 7200)), member=member, factor=1.0),
        ]
    back_at = np.zeros(members)  # M: time at which a stopped member is back
    for begin in np.sort(draw.uniform(0, length, draw.poisson(mix.churn * size.hours))).tolist():
        member, announced = int(draw.integers(members)), bool(draw.random() < 0.75)
        returns = begin + float(draw.uniform(120, 3600))
        if members > 1 and begin > back_at[member]:
            back_at[member] = returns
            events += [
                Left(at=begin, member=member, announced=announced),
                Joined(at=returns, member=member),
            ]
    for number in range(mix.racks):
        partitions = draw.permutation(fleet.partitions)[: fleet.partitions // 4].tolist()
        at = length * (number + 1) / (mix.racks + 1)
        events.append(Moved(at=at, racks={partition: _two_racks(draw) for partition in partitions}))
    return events
