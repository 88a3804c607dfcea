"""Waiting in record-seconds: by hand, against small steps, and its laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelwind.assignors.problem.drain import TARGET_UTILISATION
from levelwind.daemon.control.gain.waiting import (
    LONGEST_HORIZON_SECONDS,
    SHORTEST_HORIZON_SECONDS,
    usable_share,
    waiting_figures,
)
from levelwind_testing.examples import examples

RECORDS = st.integers(0, 100_000)
RATE = st.floats(0, 500)


@st.composite
def groups(draw):
    """Lag, rates, present owners, planned owners, and capacities."""
    members = draw(st.integers(1, 4))
    partitions = draw(st.integers(1, 8))

    def column(figure):
        return draw(st.lists(figure, min_size=partitions, max_size=partitions))

    owner = st.integers(-1, members - 1)
    capacity = draw(st.lists(st.floats(10, 1000), min_size=members, max_size=members))
    return (
        np.array(column(RECORDS)),
        np.array(column(RATE)),
        np.array(column(owner)),
        np.array(column(owner)),
        np.array(capacity),
    )


def figures(lag, rate, present, planned, capacity, pause=1.0):
    return waiting_figures(
        np.array(lag),
        np.array(rate, np.float64),
        np.array(present),
        np.array(planned),
        np.array(capacity, np.float64) / TARGET_UTILISATION,
        pause=pause,
    )


def test_a_backlog_on_one_of_two_members_by_hand():
    # 12,000 records at 100/s would take 120 s, of which 60 s count; shared they take 60 s.
    found = figures([6_000, 6_000], [0, 0], [0, 0], [0, 1], [100, 100], pause=2)
    assert found.horizon == 60
    assert found.present == pytest.approx(12_000 * 60 - 100 * 60**2 / 2)
    assert found.planned == pytest.approx(2 * (6_000 * 60 - 100 * 60**2 / 2))
    assert found.cost == pytest.approx(6_000 * 2 - 2 * 100)  # not all of it within the horizon
    assert found.worthwhile


def test_a_member_that_needs_more_than_it_can_use_waits_before_it_lags():
    # Utilisation 0.9 and 0.3: nothing is behind, but the first member keeps no reserve.
    found = waiting_figures(
        np.zeros(4),
        np.array([45.0, 45.0, 15.0, 15.0]),
        np.array([0, 0, 1, 1]),
        np.array([0, 1, 0, 1]),
        np.array([100.0, 100.0]),
        pause=1.0,
    )
    assert found.present == pytest.approx(10 * SHORTEST_HORIZON_SECONDS**2 / 2)
    assert found.planned == 0
    assert found.worthwhile


def test_a_group_with_little_to_spare_is_worth_levelling_too():
    # Two members of 100 records/s lag at 144/s each, four of 180 keep pace: 94 % of all capacity.
    member = np.repeat(np.arange(6), 6)
    planned = member.copy()
    planned[[0, 1, 6, 7]] = [2, 3, 4, 5]
    capacity = np.array([100.0, 100.0, 180.0, 180.0, 180.0, 180.0])
    found = waiting_figures(np.zeros(36), np.full(36, 24.0), member, planned, capacity, pause=1.0)
    assert found.worthwhile
    assert found.share > 0.5
    assert [usable_share(arrivals, 100.0) for arrivals in (0, 60, 90, 100, 300)] == [
        0.8,
        0.8,
        0.95,
        1.0,
        1.0,
    ]


def test_a_plan_whose_handover_takes_longer_than_what_it_saves_is_not_worthwhile():
    moving = [600, 600], [50, 50], [0, 0], [0, 1], [110, 110]
    assert figures(*moving, pause=1).worthwhile
    assert not figures(*moving, pause=60).worthwhile


def test_partitions_without_an_owner_wait():
    found = figures([100, 100], [0, 0], [-1, 0], [1, 0], [100, 100])
    assert found.present == pytest.approx(100 * 60 + 50)
    assert found.worthwhile


@given(groups(), st.floats(0, 90))
def test_a_plan_that_moves_nothing_saves_and_costs_nothing(group, pause):
    lag, rate, present, _, capacity = group
    found = waiting_figures(lag, rate, present, present, capacity, pause=pause)
    assert found.saved == 0
    assert found.cost == 0
    assert not found.worthwhile


@given(groups(), st.floats(0, 90), st.floats(0, 90))
def test_a_longer_handover_never_costs_less(group, one, other):
    short, long = sorted((one, other))
    cheap = waiting_figures(*group, pause=short)
    dear = waiting_figures(*group, pause=long)
    assert dear.cost >= cheap.cost - 1e-6 * (1 + dear.present + dear.planned)
    assert cheap.planned == dear.planned
    assert SHORTEST_HORIZON_SECONDS <= cheap.horizon <= LONGEST_HORIZON_SECONDS


@given(groups())
def test_no_plan_saves_more_than_everything(group):
    found = waiting_figures(*group, pause=1.0)
    assert found.planned >= 0
    assert found.saved <= found.present


@settings(max_examples=examples(25))
@given(groups(), st.sampled_from([0.0, 1.5, 7.0]))
def test_figures_are_those_of_small_steps(group, pause):
    """The same group step by step, with what waits to be handed over beside each queue."""
    lag, rate, present, planned, capacity = group
    found = waiting_figures(lag, rate, present, planned, capacity, pause=pause)
    members, moving = np.append(np.arange(len(capacity)), -1), present != planned
    steps = 600
    step = found.horizon / steps
    usable = capacity * usable_share(rate.sum(), capacity.sum())
    budget = np.append(usable, 0.0) * step

    def sums(figure, of):
        return np.array([figure[of & (planned == member)].sum() for member in members], float)

    queue, aside, waited = sums(lag, ~moving), sums(lag, moving), 0.0
    arriving, arriving_aside = sums(rate, ~moving) * step, sums(rate, moving) * step
    for number in range(steps):
        before = queue.sum() + aside.sum()
        if (number + 0.5) * step < pause:
            queue = np.maximum(queue + arriving - budget, 0.0)
            aside = aside + arriving_aside
        else:
            queue = np.maximum(queue + aside + arriving + arriving_aside - budget, 0.0)
            aside = np.zeros(len(members))
        waited += (before + queue.sum() + aside.sum()) / 2 * step
    exact = found.planned + (found.cost if pause else 0.0)
    a_step = (rate.sum() + capacity.sum()) * step * found.horizon + lag.sum() * step
    assert waited == pytest.approx(exact, rel=1e-2, abs=a_step)
