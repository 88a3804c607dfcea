"""Load in seconds: horizons, loads, bounds and capacities."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from levelwind.assignors.problem.columns import LEAST_FIGURE, MOST_FIGURE
from levelwind.assignors.problem.drain import (
    ASSUMED_DRAIN_SECONDS,
    ASSUMED_UTILISATION,
    LEAST_ASSUMED_SPEED,
    LONGEST_HORIZON_SECONDS,
    SHORTEST_HORIZON_SECONDS,
    best_load,
    best_wait,
    drain_figures,
    drain_seconds,
    horizon_seconds,
    horizons,
    level_profile,
    load_seconds,
    members_wanted,
    resolve_capacities,
    skew_of,
    sum_by_member,
    unevenness,
    wait_seconds,
)
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic

LAG = np.array([30, 10, 5, 100], np.int64)
OWNER = np.array([0, 2, 0, -1], np.int32)
UNKNOWN = np.array([np.nan, np.nan])

figures = st.floats(0, 1e9, allow_subnormal=False)
speeds = st.floats(1e-3, 1e9, allow_subnormal=False)


@st.composite
def groups(draw):
    """Lag and rate of partitions, their owners, and capacities of members."""
    partitions, members = draw(st.integers(0, 12)), draw(st.integers(0, 5))
    owners = st.integers(-1, members - 1)
    return (
        draw(arrays(np.float64, partitions, elements=figures)),
        draw(arrays(np.float64, partitions, elements=figures)),
        draw(arrays(np.int64, partitions, elements=owners)),
        draw(arrays(np.float64, members, elements=speeds)),
    )


def test_a_member_that_keeps_pace_beside_a_slow_one_is_not_taken_to_be_as_slow():
    # Four of six keep pace with 144 records/s; the two that lag read 100.
    announced, speed = np.ones(6), np.array([100.0, 100.0] + [np.nan] * 4)
    pace, lag = np.full(6, 144.0), np.zeros(6)
    known = resolve_capacities(announced, speed, 5_000.0, 864.0, pace=pace, lag=lag)
    assert known.records_per_second == pytest.approx([100.0, 100.0] + [180.0] * 4)
    alike = resolve_capacities(announced, speed, 5_000.0, 864.0, pace=pace / 4, lag=lag)
    assert alike.records_per_second == pytest.approx([100.0] * 6)
    nothing = resolve_capacities(announced, np.full(6, np.nan), 0.0, 864.0, pace=pace, lag=lag)
    assert nothing.assumed
    assert nothing.records_per_second == pytest.approx([288.0] * 6)


def test_a_member_far_behind_whose_speed_is_unknown_is_not_taken_to_have_a_reserve():
    # All six read 100 records/s and get more; two have shown their speed, two are not yet behind.
    announced, speed = np.ones(6), np.array([100.0, 100.0] + [np.nan] * 4)
    pace = np.full(6, 104.0)
    lag = np.array([9_000.0, 9_000.0, 1_041.0, 9_000.0, 1_040.0, 0.0])
    known = resolve_capacities(announced, speed, 30_000.0, 624.0, pace=pace, lag=lag)
    assert known.records_per_second == pytest.approx([100.0] * 4 + [130.0] * 2)


@given(backlog=figures, arrivals=figures, capacity=speeds)
def test_the_horizon_is_the_fixed_point_within_its_bounds(backlog, arrivals, capacity):
    horizon = horizon_seconds(backlog, arrivals, capacity)
    assert SHORTEST_HORIZON_SECONDS <= horizon <= LONGEST_HORIZON_SECONDS
    if SHORTEST_HORIZON_SECONDS < horizon < LONGEST_HORIZON_SECONDS:
        # Next to no spare capacity cancels most digits of the difference.
        assume(capacity - arrivals > capacity * 1e-6)
        assert horizon == pytest.approx((backlog + arrivals * horizon) / capacity, rel=1e-6)


@pytest.mark.parametrize(
    ("backlog", "arrivals", "capacity", "horizon"),
    [
        (6_000, 100, 200, 60.0),
        (100, 100, 200, SHORTEST_HORIZON_SECONDS),
        (0, 100, 200, SHORTEST_HORIZON_SECONDS),
        (0, 0, 0, SHORTEST_HORIZON_SECONDS),
        (10_000_000, 100, 200, LONGEST_HORIZON_SECONDS),
        (1, 200, 200, LONGEST_HORIZON_SECONDS),
        (0, 201, 200, LONGEST_HORIZON_SECONDS),
        (1, 0, 0, LONGEST_HORIZON_SECONDS),
    ],
)
def test_a_horizon(backlog, arrivals, capacity, horizon):
    assert horizon_seconds(backlog, arrivals, capacity) == horizon


def test_the_horizons_of_groups_are_those_of_each():
    backlog, arrivals, capacity = np.array([[6e3, 0, 1e9], [100, 0, 5], [200, 1, 5]])
    assert horizons(backlog, arrivals, capacity, shortest=20).tolist() == [
        horizon_seconds(*column, shortest=20)
        for column in zip(backlog, arrivals, capacity, strict=True)
    ]


@given(group=groups(), scale=st.floats(1e-3, 1e3))
def test_figures_do_not_change_when_all_records_are_scaled(group, scale):
    lag, rate, owner, capacity = group
    # A rate within rounding of the capacity is on either side of it once both are scaled.
    assume(abs(rate.sum() - capacity.sum()) > 1e-6 * capacity.sum() or not capacity.size)
    before = drain_figures(lag, rate, owner, capacity)
    after = drain_figures(lag * scale, rate * scale, owner, capacity * scale)
    for name in ("horizon", "heaviest", "mean", "best", "utilisation"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-6, abs=1e-9), (
            name
        )
    assert after.drains == before.drains


@given(group=groups())
def test_figures_are_finite_and_no_assignment_is_below_the_best_load(group):
    lag, rate, owner, capacity = group
    found = drain_figures(lag, rate, owner, capacity)
    json.dumps(found.as_json(), allow_nan=False)
    if (owner >= 0).all():
        assert found.best <= found.heaviest * (1 + 1e-9)
    assert found.mean <= found.best * (1 + 1e-9)
    assert found.skew is None or 1 - 1e-9 <= found.skew <= len(capacity) * (1 + 1e-9)


@given(lag=figures, rate=figures, capacity=speeds)
def test_a_member_drains_within_the_horizon_if_its_load_is_at_most_the_horizon(lag, rate, capacity):
    columns = np.array([lag]), np.array([rate]), np.array([capacity])
    needed = float(drain_seconds(*columns)[0])
    load = float(load_seconds(*columns, 60.0)[0])
    assume(abs(load - 60.0) > 1e-6)
    assert (needed <= 60.0) == (load <= 60.0)


def test_without_a_backlog_load_over_the_horizon_is_utilisation():
    found = drain_figures(
        np.zeros(3), np.array([30.0, 20.0, 50.0]), np.array([0, 0, 1]), np.array([100.0, 200.0])
    )
    assert found.utilisation == 0.5 == found.heaviest / found.horizon
    assert found.drains


def test_a_group_that_cannot_drain_wants_members():
    found = drain_figures(
        np.array([10.0, 0.0]), np.array([250.0, 150.0]), np.array([0, 1]), np.array([100.0, 200.0])
    )
    assert not found.drains
    assert found.horizon == LONGEST_HORIZON_SECONDS
    # 400 records a second at 0.8 of 150 each.
    assert found.members_wanted == 4 == members_wanted(400.0, np.array([100.0, 200.0]))
    assert drain_seconds(np.array([0, 1]), np.array([5.0, 5.0]), np.array([5.0, 5.0])).tolist() == [
        0.0,
        np.inf,
    ]


def test_members_that_read_nothing_do_not_count():
    figures_of = [
        drain_figures(
            np.array([600]),
            np.zeros(1),
            np.zeros(1, np.int64),
            np.array(capacity),
            counted=np.array(counted),
        )
        for capacity, counted in (([10.0], [True]), ([10.0, 90.0], [True, False]))
    ]
    assert figures_of[0] == figures_of[1]


def test_the_best_load_is_that_of_the_mean_or_of_the_heaviest_partition():
    assert best_load(np.array([30.0, 30.0]), np.array([1.0, 2.0])) == 20
    assert best_load(np.array([90.0, 0.0]), np.array([1.0, 2.0])) == 45
    assert best_load(np.zeros(0), np.ones(1)) == best_load(np.ones(1), np.zeros(0)) == 0


def test_the_mean_wait_is_half_of_the_load_that_a_record_finds():
    # 90 records find 9 s, and 10 find one second; level they would find 5 s.
    load, capacity = np.array([9.0, 1.0]), np.array([10.0, 10.0])
    assert wait_seconds(load, capacity) == (90 * 9 + 10 * 1) / 100 / 2
    assert best_wait(np.full(10, 10.0), capacity) == 2.5
    assert (wait_seconds(0 * load, capacity), best_wait(np.zeros(3), capacity)) == (0.0, 0.0)


def test_beside_a_partition_that_cannot_be_split_the_others_are_level_at_best():
    work = np.array([45.0, 9.0, 9.0, 9.0, 0.0])
    capacities, works = level_profile(work, np.ones(4))
    assert (capacities.tolist(), works.tolist()) == ([1, 4], [45, 72])
    assert best_wait(work, np.ones(4)) == (45 * 45 + 3 * 9 * 9) / 72 / 2
    # The heaviest one is best with the fastest; two hot ones are two corners, or one on a line.
    assert level_profile(work, np.array([1.0, 1.0, 4.0]))[0].tolist() == [6]
    assert level_profile(np.array([60.0, 40.0, 5.0]), np.ones(3))[1].tolist() == [60, 100, 105]
    assert level_profile(np.array([40.0, 40.0, 5.0]), np.ones(3))[1].tolist() == [80, 85]


@given(group=groups(), seed=st.integers(0, 99))
def test_without_a_partition_that_cannot_be_split_the_most_loaded_member_is_the_uneven_one(
    group, seed
):
    lag, rate, _, capacity = group
    work = np.asarray(lag + rate * 10, np.float64)
    assume(len(capacity))
    owner = np.random.default_rng(seed).integers(0, len(capacity), len(work))
    load = sum_by_member(work, owner, len(capacity)) / capacity
    found = unevenness(load, capacity, work)
    assert found.level >= 0
    assert found.load in load
    assert found.excess <= load.max() - load.min() * (1 - 1e-9)
    if best_load(work, capacity) <= work.sum() / capacity.sum():
        assert found == (load.max(), best_load(work, capacity))


@given(group=groups(), seed=st.integers(0, 99))
def test_no_assignment_has_a_shorter_mean_wait_than_the_best(group, seed):
    lag, rate, _, capacity = group
    work = np.asarray(lag + rate * 10, np.float64)
    if len(capacity):
        owner = np.random.default_rng(seed).integers(0, len(capacity), len(work))
        load = sum_by_member(work, owner, len(capacity)) / capacity
        assert best_wait(work, capacity) <= wait_seconds(load, capacity) * (1 + 1e-9)


def test_figures_are_summed_by_owner_and_what_nobody_owns_counts_for_nobody():
    assert sum_by_member(LAG, OWNER, 3).tolist() == [35, 0, 10]
    assert sum_by_member(LAG[:0], OWNER[:0], 2).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("case", "loads", "skew"),
    [
        ("even", [5, 5], 1.0),
        ("one member has all", [10, 0], 2.0),
        ("an idle third counts", [6, 6, 0], 1.5),
        ("no lag", [0, 0], None),
        ("no members", [], None),
    ],
)
def test_skew(case, loads, skew):
    assert skew_of(np.array(loads, np.float64)) == skew


def test_a_learned_speed_counts_and_announced_capacities_follow_it():
    speed = np.array([300.0, np.nan, 100.0, np.nan])
    found = resolve_capacities(np.array([1.0, 2.0, 1.0, 0.5]), speed, 0.0, 1e9)
    assert found.records_per_second.tolist() == [300, 400, 100, 100]
    assert not found.assumed


def test_where_no_speed_is_known_the_unit_is_assumed():
    announced = np.array([1.0, 3.0])
    by_arrivals = resolve_capacities(announced, UNKNOWN, 1e9, 4_000.0)
    assert by_arrivals.assumed
    assert by_arrivals.records_per_second.sum() == 4_000 / ASSUMED_UTILISATION
    by_backlog = resolve_capacities(announced, UNKNOWN, 240_000.0, 0.0)
    assert by_backlog.records_per_second.sum() == 240_000 / ASSUMED_DRAIN_SECONDS
    idle = resolve_capacities(announced, UNKNOWN, 5.0, 0.0)
    assert idle.records_per_second.tolist() == [LEAST_ASSUMED_SPEED, 3 * LEAST_ASSUMED_SPEED]


def test_a_group_resolves_capacities_of_those_who_share_the_work():
    topics = {
        "t": Topic(partitions=2, lags=[5, 5], rates=[600.0, 400.0]),
        "unread": Topic(partitions=1, rates=[1e9]),
    }
    members = [
        Member(id="a", topics=["t"], capacity=3.0),
        Member(id="b", topics=["t"]),
        Member(id="idle", topics=["gone"], capacity=9.0),
    ]
    group = Group.build(topics, members)
    assert group.assumed
    assert group.capacity.tolist() == [1500, 500, 4500]
    assert group.relative_capacity.tolist() == [3, 1, 9]
    members[1] = Member(id="b", topics=["t"], speed=250.0)
    group = Group.build(topics, members)
    assert not group.assumed
    assert group.capacity.tolist() == group.relative_capacity.tolist() == [750, 250, 2250]


@pytest.mark.parametrize("speed", [0, -1.0, float("inf"), float("nan"), True, "fast"])
def test_a_wrong_speed_is_named(speed):
    with pytest.raises(ProblemError, match="member 'a': speed must be a number from 1e-30"):
        Group.build({"t": Topic(partitions=1)}, [Member(id="a", topics="*", speed=speed)])


extreme = st.sampled_from([LEAST_FIGURE, 1.0, MOST_FIGURE])


@given(
    lags=st.lists(st.sampled_from([0, 1, 2**60]), min_size=4, max_size=4),
    rates=st.lists(st.sampled_from([0.0, 5e-324, 1.0, MOST_FIGURE]), min_size=4, max_size=4),
    capacities=st.lists(extreme, min_size=3, max_size=3),
    speeds=st.lists(st.none() | extreme, min_size=3, max_size=3),
    owner=st.lists(st.integers(-1, 2), min_size=4, max_size=4),
)
def test_the_figures_of_the_most_extreme_groups_are_finite(lags, rates, capacities, speeds, owner):
    """NumPy's warning of an overflow is an error here, as in all tests."""
    topics = {"t": Topic(partitions=4, lags=lags, rates=rates)}
    members = [
        Member(id=f"m{index}", topics="*", capacity=capacity, speed=speed)
        for index, (capacity, speed) in enumerate(zip(capacities, speeds, strict=True))
    ]
    group = Group.build(topics, members)
    owner = np.array(owner, np.int32)
    figures = drain_figures(group.lag, group.rate, owner, group.capacity).as_json()
    assert all(value is None or math.isfinite(value) for value in figures.values())
    assert math.isfinite(best_wait(group.lag + group.rate * 60.0, group.capacity))
