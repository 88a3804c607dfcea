"""Replay of the scenarios in the simulation: the daemon's own policy, on the same arrivals.

Kafka's candidates plan with the same algorithm, and only when the members change: then at once,
and nobody reads what moves until the last member has learned of it by a heartbeat. The replay knows
no polling, and the pipeline and hand-overs by their usual time only: members read without delay,
lag is judged a fixed time after the next sample was taken, and a partition that moves pauses for a
fixed time. With true rates the daemon knows what will arrive from now on: the ideal of what it
learns from samples.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from levelwind.daemon.simulation.command import rules_of
from levelwind.daemon.simulation.fleet import Consumer, Fleet, Joined, Left, Slowed, World
from levelwind.daemon.simulation.strategy.candidates import candidate as planning_candidate
from levelwind.daemon.simulation.strategy.observation import Rhythm
from levelwind.daemon.simulation.strategy.strategy_run import HandOver, StrategyRun
from levelwind.daemon.simulation.traffic import RecentArrivals
from levelwind_testing.drain.drain_figures import (
    DRAINED_SECONDS,
    ArrivedRecords,
    delays_of,
    drain_seconds,
    percentile,
)
from levelwind_testing.drain.drain_report import ReplayFigures
from levelwind_testing.drain.drain_scenarios import (
    MEMBER_RACKS,
    MEMBER_RATE,
    PARTITIONS,
    TOPIC_SIZES,
    WARM_UP_SECONDS,
    DrainScenario,
    arrivals_in,
    burst_partitions,
    burst_sizes,
    hot_rates,
    member_rack,
    partition_rates,
    rates_after_burst,
    replica_racks,
)
from levelwind_testing.drain.prefetching_reader import PrefetchingReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.simulation.fleet import Event
    from levelwind_testing.drain.drain_candidates import DrainCandidate

TICKS = 4
"""Ticks of a second."""
LEAD_SECONDS = 8
"""Seconds from the first plan to the first arrivals, as in a round on real brokers."""
TARGET_SECONDS = 60.0
"""Waiting time that the replay counts as missed; nothing depends on it."""
RHYTHM = Rhythm(commits=5.0, samples=1.0, begin=0.5, delay=0.5)
"""What clients do, and the observer, by default. A burst comes in the middle between two samples,
which is what it does on average; the delay is what `bench_pipeline.py` measures."""
PAUSE_SECONDS = 1.0
"""Seconds for which nobody reads a partition that moves.

A hand-over takes 0.2 s (`bench_handover.py`). The rest stands for what passes between the judgement
of a sample and its plan: without it first moves come a fifth too soon.
"""
HEARTBEAT_SECONDS = 3.0
"""Seconds between two heartbeats of a member of a classic group: `heartbeat.interval.ms`."""
CONSUMER_HEARTBEAT_SECONDS = 5.0
"""The same in a group of KIP-848: `group.consumer.heartbeat.interval.ms`."""
STATIC_SESSION_SECONDS = 45.0
"""Seconds after which Kafka counts a silent static member as dead, by default."""


class TrueRates(RecentArrivals):
    """Arrivals whose rates are known without being measured."""

    known = np.zeros(PARTITIONS)
    """P: records a second from now on."""

    def rates(self) -> np.ndarray:
        """Records that arrive per second (P)."""
        return self.known


class ReplayArrivals:
    """No arrivals: the replay passes them tick by tick, since the burst follows the owners."""

    def block(self, first: int, ticks: int) -> np.ndarray:
        """Nothing."""
        return np.zeros((first + ticks, PARTITIONS), dtype=np.int64)[first:]


def replay(
    scenario: DrainScenario,
    candidate: DrainCandidate,
    seed: int,
    settings: Settings,
    *,
    true_rates: bool = False,
) -> ReplayFigures:
    """Simulate a scenario for a candidate; with true rates it need not measure them."""
    rules = rules_of(settings)
    if candidate.mode is None:
        never = replace(rules.skew, floor_seconds=math.inf, utilisation=math.inf)
        control = replace(rules.control, settle=0.0)
        rules = replace(
            rules, control=control, skew=never, dead_after=STATIC_SESSION_SECONDS, grant=0.0
        )
    world = replay_world(scenario, candidate)
    pause = pause_seconds(candidate)
    hand_over = HandOver(pause=pause, eager=candidate.eager)
    reader = PrefetchingReader(world.ticks, PARTITIONS, scenario.costs)
    run = StrategyRun(
        world,
        planning_candidate(candidate.strategy).plan,
        rules,
        hand_over,
        TARGET_SECONDS,
        reader,
        RHYTHM,
    )
    arrivals = TrueRates if true_rates else RecentArrivals
    recent = arrivals(PARTITIONS, world.tick, TARGET_SECONDS)
    begin = (LEAD_SECONDS + WARM_UP_SECONDS) * TICKS
    rates = partition_rates(scenario, seed)
    arrived = np.zeros((world.ticks, PARTITIONS), dtype=np.int64)
    done = np.zeros_like(arrived)
    burst: Sequence[int] = ()
    moves, plans, first_move = 0, 0, None
    for number in range(world.ticks):
        second, part = divmod(number - LEAD_SECONDS * TICKS, TICKS)
        if number == begin:
            burst = burst_partitions(scenario, seed, run.owner.tolist())
            rates = rates_after_burst(scenario, rates, burst)
            plans = sum(run.tally.plans.values())
        if second >= 0:
            current = hot_rates(scenario, rates, seed, second - WARM_UP_SECONDS)
            counts = arrivals_in(current, seed, second)
            if isinstance(recent, TrueRates):
                recent.known = current
            arrived[number] = counts * (part + 1) // TICKS - counts * part // TICKS
        if number == begin:
            arrived[number] += burst_sizes(scenario, burst)
        owner = run.owner.copy()
        recent.arrive(arrived[number])
        reader.arrive(arrived[number])
        done[number] = run.tick(number, arrived[number], recent)
        moved = int(np.count_nonzero((run.owner != owner) & (owner >= 0)))
        if moved and number >= begin:
            moves += moved
            if first_move is None:
                first_move = (number - begin) / TICKS + pause
    first_of_burst = arrived[:begin].sum(axis=0)
    sizes = burst_sizes(scenario, burst)
    bounds = zip(first_of_burst.tolist(), (first_of_burst + sizes).tolist(), strict=True)
    records = ArrivedRecords(at=record_times(arrived, 0.0), burst=list(bounds))
    handled = padded(record_times(done, 1.0), records.at)
    began, ended = begin / TICKS, world.ticks / TICKS
    drain = drain_seconds(scenario, records, handled, began, ended)
    delays = delays_of(records, handled, began, min(began + scenario.judged, ended), ended)
    left = (arrived.cumsum(axis=0) - done.cumsum(axis=0))[begin:]
    others = np.delete(left, burst[0], axis=1).sum(axis=1) if burst else left.sum(axis=1)
    busy = np.flatnonzero(others > scenario.arrivals * DRAINED_SECONDS)
    return ReplayFigures(
        drain_over_ideal=None if drain is None or not scenario.ideal else drain / scenario.ideal,
        first_move=first_move,
        p99=percentile(delays, 0.99),
        mean=float(delays.mean()),
        most_lag=int(left.sum(axis=1).max()),
        others_drained=(int(busy.max(initial=-1)) + 1) / TICKS,
        moves=moves,
        plans=sum(run.tally.plans.values()) - plans,
    )


def pause_seconds(candidate: DrainCandidate) -> float:
    """Seconds for which nobody reads a partition that moves, on average.

    A rebalance of a classic group waits for the last of the other members. In a group of KIP-848
    the former owner and then the next one learn of it, each after half an interval.
    """
    if candidate.mode is not None:
        return PAUSE_SECONDS
    if candidate.client.get("group.protocol") == "consumer":
        return CONSUMER_HEARTBEAT_SECONDS
    others = len(MEMBER_RACKS) - 1
    return HEARTBEAT_SECONDS * others / (others + 1)


def replay_world(scenario: DrainScenario, candidate: DrainCandidate) -> World:
    """Members, partitions and restarts of a scenario, from the first plan on."""
    fleet = Fleet.build(
        topics=TOPIC_SIZES,
        consumers=[
            Consumer(id=f"member-{number:02}", topics="*", rack=member_rack(number))
            for number in range(scenario.members)
        ],
        absent=frozenset(
            f"member-{number:02}" for number in range(len(scenario.speeds), scenario.members)
        ),
        speed=MEMBER_RATE,
        racks={
            topic: [replica_racks(number) for number in range(size)]
            for topic, size in TOPIC_SIZES.items()
        },
    )
    events: list[Event] = [
        Slowed(at=0.0, member=member, factor=speed / MEMBER_RATE)
        for member, speed in enumerate(scenario.speeds)
        if speed != MEMBER_RATE
    ]
    for at, change, member in scenario.changes:
        time = LEAD_SECONDS + WARM_UP_SECONDS + at
        if change in ("start", "thaw"):
            events.append(Joined(at=time, member=member))
        else:
            announced = change == "stop" and not candidate.static
            events.append(Left(at=time, member=member, announced=announced))
    seconds = LEAD_SECONDS + WARM_UP_SECONDS + scenario.measured
    return World(
        name=scenario.name,
        fleet=fleet,
        arrivals=ReplayArrivals(),
        events=tuple(sorted(events, key=lambda event: event.at)),
        ticks=round(seconds * TICKS),
        tick=1 / TICKS,
    )


def record_times(counts: np.ndarray, end: float) -> list[np.ndarray]:
    """Time of each record by partition, from records (ticks x P), `end` ticks after its own."""
    ticks = (np.arange(len(counts)) + end) / TICKS
    return [np.repeat(ticks, column) for column in counts.T]


def padded(handled: Sequence[np.ndarray], arrived: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Handling times as long as the arrivals; what was not handled never was."""
    return [
        np.append(times, np.full(len(at) - len(times), np.inf))
        for times, at in zip(handled, arrived, strict=True)
    ]
