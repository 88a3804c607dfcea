"""The scenarios that `optimal` is measured in on real brokers, with the defaults of the daemon.

Six members of 300 records a second, 36 partitions in two topics, replicas in two of three racks, a
tick of a second, and hand-overs that take one.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from levelwind.daemon.control.settings import Cause, ControlSettings
from levelwind.daemon.simulation.fleet import Consumer, Fleet, Slowed, World
from levelwind.daemon.simulation.strategy.candidates import candidate
from levelwind.daemon.simulation.strategy.group_control import Rules
from levelwind.daemon.simulation.strategy.strategy_run import HandOver, StrategyRun
from levelwind.daemon.simulation.traffic import RecentArrivals
from levelwind.streaming.rules.skew import SkewRule

MEMBERS, PARTITIONS, SPEED = 6, 36, 300.0
CAPACITY = MEMBERS * SPEED
BURST_AT = 20
EVEN = np.full(PARTITIONS, 25.0)


@dataclass
class Noisy:
    """Poisson arrivals at a rate for each partition, and a burst of records on top."""

    rates: np.ndarray
    burst: np.ndarray
    tick: float

    def block(self, first, ticks):
        draw = np.random.default_rng([7, first])
        records = draw.poisson(self.rates * self.tick, (ticks, PARTITIONS)).astype(np.int64)
        if first <= BURST_AT < first + ticks:
            records[BURST_AT - first] += self.burst
        return records


@dataclass
class Course:
    """What happened in a run; columns by tick, a second each."""

    run: StrategyRun
    lag: np.ndarray
    """Records behind."""
    moved_at: list
    """Ticks at which partitions changed their owners."""
    utilisation: np.ndarray
    """Largest share of its true capacity that the arrivals of a member need."""

    @property
    def skew_plans(self):
        return self.run.tally.plans.get(Cause.SKEW, 0)

    def drained_after(self, ordinary):
        """Seconds from the burst until no more is behind than without it."""
        return int(np.flatnonzero(self.lag[BURST_AT + 1 :] <= ordinary)[0]) + 1


def play(rates, ticks, *, burst=0, slow=(), tick=1.0):
    racks = [["abc"[n % 3], "abc"[(n + 1) % 3]] for n in range(PARTITIONS // 2)]
    fleet = Fleet.build(
        topics={"t": PARTITIONS // 2, "u": PARTITIONS // 2},
        consumers=[Consumer(id=f"m{n}", topics="*", rack="abc"[n % 3]) for n in range(MEMBERS)],
        speed=SPEED,
        racks={"t": racks, "u": racks},
    )
    arrivals = Noisy(np.asarray(rates), np.zeros(PARTITIONS, np.int64) + burst, tick)
    events = tuple(Slowed(at=0.0, member=member, factor=1 / 3) for member in slow)
    world = World(
        name="drain", fleet=fleet, arrivals=arrivals, events=events, ticks=ticks, tick=tick
    )
    rules = Rules(control=ControlSettings(), skew=SkewRule(), dead_after=15.0, grant=36.0)
    run = StrategyRun(world, candidate("optimal").plan, rules, HandOver(pause=1.0), 60.0)
    recent, lag, moved_at, utilisation = RecentArrivals(PARTITIONS, tick, 60.0), [], [], []
    speed = np.where(np.isin(np.arange(MEMBERS), slow), SPEED / 3, SPEED)
    for number, records in enumerate(world.arrivals.block(0, ticks)):
        before = run.owner.copy()
        recent.arrive(records)
        run.tick(number, records, recent)
        lag.append(int(run.lag.sum()))
        if number and not np.array_equal(before, run.owner):
            moved_at.append(number)
        utilisation.append((np.bincount(run.owner, arrivals.rates, MEMBERS) / speed).max())
    return Course(run, np.array(lag), moved_at, np.array(utilisation))


def on_one_member(rates, records):
    """A burst on the partitions of one member, spread evenly over them."""
    owner = play(rates, BURST_AT).run.owner
    return np.where(owner == 0, records // np.count_nonzero(owner == 0), 0)


def test_a_backlog_on_one_member_drains_in_the_time_of_the_whole_group():
    course = play(EVEN, 120, burst=on_one_member(EVEN, 54_000))
    ideal = 54_000 / (CAPACITY - EVEN.sum())
    assert course.moved_at[0] <= BURST_AT + 8
    assert course.drained_after(500) <= 1.15 * ideal


@pytest.mark.slow
def test_a_backlog_ten_times_as_large_with_arrivals_elsewhere_takes_three_plans_at_most():
    owner = play(EVEN, BURST_AT).run.owner
    rates = np.where(owner == 0, 0.0, 30.0)
    burst = on_one_member(rates, 540_000)
    course = play(rates, 700, burst=burst)
    took = course.drained_after(500)
    assert took <= 1.05 * 540_000 / (CAPACITY - rates.sum())
    assert len([at for at in course.moved_at if at <= BURST_AT + took]) <= 3


def test_noisy_even_load_for_an_hour_moves_nothing():
    course = play(np.full(PARTITIONS, 35.0), 720, tick=5.0)
    assert course.moved_at == []
    assert course.run.tally.plans == {}


def test_slow_members_whose_capacity_nobody_announced_get_less():
    course = play(np.full(PARTITIONS, 24.0), 240, slow=(0, 1))
    assert course.moved_at[0] <= 30
    assert course.utilisation[30:].max() < 1
    assert course.lag[120:].max() < 500


def test_one_hot_partition_gets_one_plan_at_most():
    burst = np.where(np.arange(PARTITIONS) == 3, 60_000, 0)
    course = play(EVEN, 450, burst=burst)
    assert course.skew_plans <= 1
    assert course.drained_after(500) <= 2 * 60_000 / (SPEED - EVEN[3])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_uneven_arrivals_are_levelled_within_the_first_minute(seed):
    weight = 1 / np.arange(1, PARTITIONS + 1) ** 0.9
    rates = np.random.default_rng(seed).permutation(0.7 * CAPACITY * weight / weight.sum())
    course = play(rates, 200)
    assert course.utilisation[60:].max() < 0.95
    assert course.lag[100:].max() < 2_000
