"""Rates and speeds from differences of samples."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.daemon.assessment.pace import LEAST_SPEED_SECONDS, pace_of
from levelwind_testing.groups.observations import NAME, TOPIC, described, member, observed


def pace(group, *samples):
    return pace_of(observed(group, *samples), NAME)


def test_rates_are_differences_over_the_time_between_the_answers():
    found = pace(described(member("m", 0)), (0.0, [100], [100]), (10.0, [150], [300]))
    assert found.seconds == 10
    assert found.arrivals == {(TOPIC, 0): 20.0}
    assert found.consumed == {(TOPIC, 0): 5.0}


def test_one_sample_gives_no_rate():
    assert pace(described(member("m", 0)), (0.0, [1], [9])) == pace_of(
        observed(described(), (0.0, [], [])), "another group"
    )


def test_an_offset_that_went_back_gives_no_rate():
    found = pace(described(member("m", 0, 1)), (0.0, [50, 0], [100, 0]), (10.0, [10, 10], [5, 10]))
    assert found.arrivals == {(TOPIC, 1): 1.0}
    assert found.consumed == {(TOPIC, 1): 1.0}


def test_a_member_at_the_end_of_its_log_shows_no_speed():
    samples = [(10.0 * n, [100 * n], [100 * n]) for n in range(4)]
    assert pace(described(member("m", 0)), *samples).speeds == {}


def test_a_member_that_is_behind_shows_its_speed_over_all_of_that_time():
    commits = [0, 500, 500, 1000]  # it commits every other sample
    samples = [(10.0 * n, [commit], [9000]) for n, commit in enumerate(commits)]
    assert pace(described(member("m", 0)), *samples).speeds == {"m": pytest.approx(1000 / 30)}


def test_a_member_that_reached_the_end_meanwhile_shows_no_speed_by_that():
    samples = [(0.0, [50], [100]), (10.0, [100], [100]), (20.0, [100], [100])]
    assert pace(described(member("m", 0)), *samples).speeds == {}


def test_a_partition_that_is_stuck_makes_no_speed_of_a_member_that_keeps_pace():
    samples = [(10.0 * n, [7, 1000 * n], [9, 1000 * n]) for n in range(4)]
    assert pace(described(member("m", 0, 1)), *samples).speeds == {}


def test_a_member_that_got_another_partition_shows_no_speed_in_between():
    before = observed(described(member("m", 0)), (0.0, [0, 0], [9000, 9000]))
    after = observed(described(member("m", 0, 1)), (10.0, [900, 900], [9000, 9000]))
    both = replace(after, samples=(*before.samples, *after.samples))
    found = pace_of(both, NAME)
    assert found.speeds == {}
    assert found.regrouped


def test_a_member_stands_still_only_where_records_were_waiting_from_the_beginning():
    group = described(member("stuck", 0), member("idle", 1), member("late", 2))
    found = pace(group, (0.0, [5, 8, 8], [10, 8, 8]), (30.0, [5, 8, 8], [20, 8, 9]))
    assert found.still == {"stuck": 15}


@given(
    speed=st.integers(1, 5000),
    commit_every=st.integers(1, 10),
    backlog=st.integers(1_000_000, 2_000_000),
    arrivals=st.integers(0, 5000),
    begin=st.integers(0, 10**12),
)
def test_the_speed_of_a_member_is_off_by_one_step_of_its_commits_at_most(
    speed, commit_every, backlog, arrivals, begin
):
    samples = [
        (
            float(at),
            [begin + speed * (at // commit_every * commit_every)],
            [begin + backlog + arrivals * at],
        )
        for at in range(0, 61, 10)
    ]
    found = pace(described(member("m", 0)), *samples)
    assert found.speeds["m"] == pytest.approx(speed, rel=commit_every / 60, abs=1e-6)
    assert found.arrivals[TOPIC, 0] == pytest.approx(arrivals)
    assert LEAST_SPEED_SECONDS <= 10
