"""Load, time to drain and racks of a group, as it is and at best."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.assessment.gain import NEVER, CrossRack, gain_of, lag_of
from levelwind.daemon.assessment.log_sizes import record_sizes
from levelwind.daemon.assessment.pace import pace_of
from levelwind.daemon.control.settings import PlanSettings
from levelwind_testing.groups.observations import NAME, TOPIC, described, layout, member, observed


def gain(observation, **settings):
    return gain_of(
        observation, NAME, pace_of(observation, NAME), PlanSettings(strategy="optimal", **settings)
    )


def behind(group, speeds, lags, arrivals=0, **other):
    """Samples in which each member reads its first partitions at a speed, from a lag at the end."""
    seconds = (0.0, 20.0)
    owner = {one: each.name for each in group.members for one in each.owned}
    read = [
        speeds[owner[TOPIC, n]] / len(group_share(group, owner[TOPIC, n])) for n in range(len(lags))
    ]
    samples = [
        (
            at,
            [round(100_000 + rate * (at - 20)) for rate in read],
            [round(100_000 + lag + arrivals * (at - 20)) for lag in lags],
        )
        for at in seconds
    ]
    return observed(group, *samples, **other)


def group_share(group, name):
    return next(each.owned for each in group.members if each.name == name)


def test_time_to_drain_is_that_of_the_slowest_member_now_and_at_best():
    group = described(member("a", 0, 1), member("b", 2, 3))
    found = gain(behind(group, {"a": 100, "b": 100}, [5000, 5000, 1000, 1000]))
    assert found.now.drain == pytest.approx(100)
    assert found.best is not None
    assert found.best.drain == pytest.approx(60)
    assert found.moves == 2
    assert found.now.busiest_member == "a"
    assert found.now.busiest == pytest.approx(10_000 / 6000)
    assert found.best.busiest == pytest.approx(1)


def test_lag_that_grows_never_drains_and_does_at_best():
    group = described(member("a", 0, 1), member("b", 2, 3))
    speeds = {"a": 100, "b": 100}
    rates = [60, 60, 10, 10]
    samples = [
        (
            at,
            [round(100_000 + speeds[name] / 2 * (at - 20)) for name in "aabb"],
            [round(104_000 + rate * (at - 20)) for rate in rates],
        )
        for at in (0.0, 20.0)
    ]
    found = gain(observed(group, *samples))
    assert found.now.drain == NEVER
    assert found.best is not None
    assert math.isfinite(found.best.drain)


def test_lag_that_may_be_more_than_unknown_members_can_read_is_not_said_to_stay():
    group = described(member("slow", 0), member("quick", 1))
    samples = [(at, [1000 + at * 10, at * 5000], [9000 + at * 4000, at * 5000]) for at in (0, 20)]
    found = gain(observed(group, *samples))
    assert found.now.drain == NEVER, "the slow member has shown its speed"
    assert found.best is not None
    assert found.best.drain is None, "nobody knows what the quick one can read"


def test_the_busiest_member_is_compared_with_what_all_could_share_by_their_speeds():
    group = described(member("quick", 0, 1), member("slow", 2, 3))
    found = gain(behind(group, {"quick": 1000, "slow": 1}, [5000] * 4))
    assert found.now.busiest_member == "slow"
    assert found.best is not None
    assert found.best.busiest == pytest.approx(1.001), "all of it at the quick one is best"


def test_no_seconds_are_given_where_no_speed_is_known():
    group = described(member("a", 0, 1), member("b", 2))
    found = gain(observed(group, (0.0, [0, 0, 0], [5000, 5000, 5000])))
    assert found.assumed
    assert found.now.drain is None
    assert found.now.busiest == pytest.approx(4 / 3), "a ratio needs no speed"


def test_a_group_that_keeps_pace_has_nothing_to_drain():
    group = described(member("a", 0), member("b", 1))
    found = gain(observed(group, (0.0, [0, 0], [50, 50]), (20.0, [200, 200], [250, 250])))
    assert found.now.drain == 0


def test_a_member_that_keeps_pace_with_much_beside_a_slow_one_is_not_taken_to_be_slow():
    group = described(member("slow", 0), member("quick", 1))
    samples = [(at, [1000 + at * 10, at * 5000], [9000 + at * 5, at * 5000]) for at in (0, 20)]
    found = gain(observed(group, *samples))
    assert not found.assumed
    assert found.now.drain == pytest.approx((9100 - 1200) / 5)


def test_records_that_no_member_owns_are_never_drained_now():
    group = described(member("a", 0))
    found = gain(observed(group, (0.0, [0, 0], [900, 900]), (20.0, [400, 0], [900, 900])))
    assert found.now.drain == NEVER


def test_the_lag_of_a_partition_without_a_commit_is_not_known_and_not_zero():
    group = described(member("a", 0, 1, 2))
    begins = {(TOPIC, 1): 5, (TOPIC, 2): 5}
    lag = lag_of(observed(group, (0.0, [3, None, None], [9, 9, 5]), begins=begins), NAME)
    assert lag.known == {(TOPIC, 0): 6, (TOPIC, 2): 0}
    assert lag.unknown == {(TOPIC, 1)}
    assert lag.held == 4, "records between the log's begin and its end"
    nothing = lag_of(observed(group, (0.0, [None], [None]), layout=layout(1)), NAME)
    assert nothing.total is None


RACKED = described(member("a", 1, rack="a"), member("b", 0, rack="b"), member("c", 2, rack="c"))
READ = ((0.0, [0, 0, 0], [0, 0, 0]), (10.0, [100, 100, 100], [100, 100, 100]))


def test_cross_rack_reads_are_those_in_effect_with_their_records():
    found = gain(observed(RACKED, *READ))
    assert found.now.cross_rack == CrossRack(nominal=2 / 3, effective=2 / 3, records=20.0)
    assert found.best is not None
    assert found.best.cross_rack == CrossRack(nominal=0.0, effective=0.0, records=0.0, bytes=0.0)


@pytest.mark.parametrize(
    ("stored", "settings", "expected"),
    [
        ({}, {}, None),
        ({TOPIC: 100.0}, {}, 2000),
        ({"other": 100.0}, {}, None),
        ({TOPIC: 100.0}, {TOPIC: 300.0}, 6000),
        ({}, {"*": 300.0}, 6000),
    ],
    ids=["not known", "logs", "logs of another topic", "settings first", "settings of all topics"],
)
def test_bytes_across_racks_are_known_by_the_settings_or_by_the_logs(stored, settings, expected):
    found = gain(observed(RACKED, *READ, record_bytes=stored), record_bytes=settings)
    assert found.now.cross_rack.bytes == expected


def test_sizes_are_means_over_the_logs_that_hold_records():
    sizes = {("a", 0): 500, ("a", 1): 1500, ("b", 0): 70, ("c", 0): 9}
    begins = dict.fromkeys([("a", 0), ("a", 1), ("b", 0)], 10)
    ends = {("a", 0): 20, ("a", 1): 40, ("b", 0): 10, ("c", 0): 5}
    assert record_sizes(sizes, begins, ends) == {"a": 50.0}


def test_cross_rack_reads_in_effect_are_not_known_without_the_brokers_settings():
    found = gain(observed(RACKED, *READ, layout=layout(3, follower_fetching=None)))
    assert found.now.cross_rack == CrossRack(nominal=2 / 3)


def test_racks_are_not_known_where_members_tell_none():
    group = described(member("a", 0, 1, 2))
    assert gain(observed(group, *READ)).now.cross_rack == CrossRack()


def test_a_group_without_members_and_one_of_streams_get_no_plan():
    assert "no member" in gain(observed(described(), *READ)).unplanned
    streams = gain(observed(described(member("a", 0, 1, 2), assignor="stream"), *READ))
    assert streams.best is None
    assert "Streams" in streams.unplanned


@given(data=st.data())
def test_at_best_no_member_has_more_to_do_and_the_time_is_that_of_a_naive_sum(data):
    members = data.draw(st.integers(1, 4))
    counts = [data.draw(st.integers(1, 3)) for _ in range(members)]
    numbers = iter(range(sum(counts)))
    group = described(
        *(member(f"m{n}", *(next(numbers) for _ in range(count))) for n, count in enumerate(counts))
    )
    speeds = {f"m{n}": data.draw(st.integers(50, 500)) * 6 for n in range(members)}
    lags = [data.draw(st.integers(10_000, 100_000)) for _ in range(sum(counts))]
    found = gain(behind(group, speeds, lags))
    naive = max(
        sum(lags[number] for _, number in each.owned) / speeds[each.name] for each in group.members
    )
    assert found.now.drain == pytest.approx(naive, rel=1e-6)
    assert found.best is not None
    assert found.best.drain <= max(found.now.drain * 1.02, 7.1)
    assert found.best.busiest <= found.now.busiest * 1.02
