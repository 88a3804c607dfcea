"""A simulated day of a group that is scaled by what it wants, on uneven partitions."""

import heapq
import math
from collections import deque

import numpy as np
import pytest

from levelwind.daemon.control.gain.scaling import MembersWanted, members_needed
from levelwind.daemon.control.settings import ScalingSettings

STEP = 30
"""Seconds between two looks of the autoscaler."""
START = 30
"""Seconds until a new member reads."""
PAUSE = 5.0
"""Seconds for which members that take partitions over do not read."""
DAY = 24 * 3600
SPEED = 1000.0


def shares(partitions, rng):
    """Shares of the load, of which the largest is about twice the mean."""
    weights = 1 / np.arange(1, partitions + 1) ** 0.3
    return rng.permutation(weights / weights.sum())


def arrivals(second, rng):
    """Records a second: a quiet night, a peak in the afternoon, noise, a burst in the evening."""
    day = 0.5 - 0.5 * math.cos(2 * math.pi * (second / DAY - 0.1))
    burst = 6000.0 if 20 * 3600 <= second < 20 * 3600 + 600 else 0.0
    return (500 + 9000 * day**2) * rng.uniform(0.9, 1.1) + burst


def levelled(work, members):
    """Owner of each partition, as plans level the load: the largest to the least loaded."""
    heap = [(0.0, member) for member in range(members)]
    owner = np.zeros(work.size, np.int64)
    for index in np.argsort(-work):
        load, member = heapq.heappop(heap)
        owner[index] = member
        heapq.heappush(heap, (load + work[index], member))
    return owner


class ScaledGroup:
    def __init__(self, partitions, settings, seed):
        self.rng = np.random.default_rng(seed)
        self.share = shares(partitions, self.rng)
        self.settings = settings
        self.lag = np.zeros(partitions)
        self.rate = np.zeros(partitions)
        self.reading = 2
        self.wanted = MembersWanted()
        self.starting = deque()
        self.members, self.arrived, self.drains, self.changes = [], [], [], 0

    def step(self, second):
        now = arrivals(second, self.rng)
        # Rates are learned over the last minute.
        self.rate = 0.75 * self.rate + 0.25 * now * self.share if second else now * self.share
        needed = members_needed(self.lag, self.rate, self.reading, SPEED, self.settings)
        self.wanted = self.wanted.after(
            needed, members=self.reading, settings=self.settings, now=float(second)
        )
        pause = 0.0
        self.starting.append(self.wanted.wanted)
        # Members stop at once, and read some time after they were started.
        ready = min(self.wanted.wanted, *self.starting)
        if len(self.starting) > START // STEP:
            self.starting.popleft()
        if ready != self.reading:
            self.reading, pause = ready, PAUSE
            self.changes += 1
        owner = levelled(self.rate + self.lag / 10, self.reading)
        self.lag += now * self.share * STEP
        for member in range(self.reading):
            owned = owner == member
            behind = self.lag[owned].sum()
            if behind:
                self.lag[owned] *= max(0.0, 1 - SPEED * (STEP - pause) / behind)
        self.members.append(self.reading)
        self.arrived.append(now)
        spare = self.reading * SPEED - now
        self.drains.append(self.lag.sum() / spare if spare > 0 else math.inf)


@pytest.mark.slow
@pytest.mark.parametrize(("partitions", "seed"), [(24, 1), (37, 2)])
def test_a_day_is_read_in_time_with_half_the_members_of_its_peak(partitions, seed):
    settings = ScalingSettings(drain_within=60.0, scale_down_after=300.0)
    group = ScaledGroup(partitions, settings, seed)
    for second in range(0, DAY, STEP):
        group.step(second)
    members, arrived = np.array(group.members), np.array(group.arrived)
    assert members.max() <= partitions
    assert members.min() == settings.min_members
    # Behind by more than a minute's work only around the burst, while members start.
    late = np.flatnonzero(np.array(group.drains) > settings.drain_within) * STEP
    assert late.size * STEP <= 300, late[:20]
    assert group.lag.sum() < 60 * arrived[-1]
    usual = np.ones(arrived.size, bool)
    usual[20 * 3600 // STEP : (20 * 3600 + 1200) // STEP] = False
    least = arrived / SPEED
    assert (members[usual] <= np.ceil(least[usual] / 0.8 * 1.3) + 3).all()
    assert members.mean() < 0.6 * members.max()
    assert group.changes <= 150, "a change costs a hand-over"


@pytest.mark.slow
def test_a_partition_that_is_as_large_as_a_member_is_not_waited_for_by_more_members():
    group = ScaledGroup(4, ScalingSettings(), 3)
    group.share = np.array([0.97, 0.01, 0.01, 0.01])
    for second in range(0, DAY, STEP):
        group.step(second)
    assert max(group.members) <= 4
    assert np.median(group.members) <= 2
