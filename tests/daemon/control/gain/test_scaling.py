"""Members that a group wants: bounds, monotonicity, and the wait before scaling down."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.problem.drain import TARGET_UTILISATION
from levelwind.daemon.control.gain.scaling import MembersWanted, least_members, members_needed
from levelwind.daemon.control.settings import ScalingSettings

DEFAULT = ScalingSettings()
FREE = ScalingSettings(min_members=0)
works = st.lists(st.floats(0, 1e6), max_size=40).map(lambda values: np.array(values, np.float64))
speeds = st.floats(1, 1e5)


def first_fit(work, speed):
    """A packing of whole partitions, the largest first; one above the speed fills a member."""
    free = []
    for one in sorted(np.minimum(work, speed), reverse=True):
        if one <= 0:
            continue
        for index, room in enumerate(free):
            if one <= room * (1 + 1e-12):
                free[index] -= one
                break
        else:
            free.append(speed - one)
    return len(free)


@given(works, speeds)
def test_no_packing_does_with_fewer_members(work, speed):
    least = least_members(work, speed)
    assert least <= first_fit(work, speed) <= np.count_nonzero(work)
    assert least >= np.minimum(work, speed).sum() / speed * (1 - 1e-6)


@given(works, speeds, st.floats(1, 10), st.integers(0, 39), st.floats(0, 1e5))
def test_more_work_or_less_speed_never_wants_fewer_members(work, speed, factor, index, more):
    least = least_members(work, speed)
    assert least_members(work, speed / factor) >= least
    if work.size:
        work[index % work.size] += more
        assert least_members(work, speed) >= least


@pytest.mark.parametrize(
    ("work", "speed", "least"),
    [
        ([], 10, 0),
        ([0.0, 0.0], 10, 0),
        ([1.0], 10, 1),
        ([10.0] * 3, 10, 3),
        ([500.0, 1.0], 10, 2),  # one that no member can carry alone fills one
        ([4.0] * 5, 10, 3),  # two to a member, though their sum is two members'
        ([6.0] * 4, 10, 4),  # no two fit together
        ([3.4] * 6, 10, 3),
        ([0.01] * 1000, 10, 1),
    ],
)
def test_partitions_are_packed_whole(work, speed, least):
    assert least_members(np.array(work), speed) == least


def needed(lag, rate, members=3, speed=100.0, settings=DEFAULT):
    return members_needed(
        np.array(lag, np.float64), np.array(rate, np.float64), members, speed, settings
    )


def test_arrivals_leave_a_fifth_of_the_members_speed_in_reserve():
    assert needed([0] * 8, [10.0] * 8) == 1
    assert needed([0] * 8, [10.1] * 8) == 2
    assert TARGET_UTILISATION == 0.8


def test_what_is_behind_is_to_be_drained_in_time():
    assert needed([1500.0] * 8, [0.0] * 8) == 2  # 12,000 records in 60 s
    slower = ScalingSettings(drain_within=120.0)
    assert needed([1500.0] * 8, [0.0] * 8, settings=slower) == 1


def test_never_more_than_the_partitions_with_work():
    assert needed([1e6, 1e6, 0, 0], [0.0, 0.0, 0.0, 0.0]) == 2
    assert needed([0, 0, 0], [0, 0, 0]) == DEFAULT.min_members


def test_the_floor_and_the_ceiling_hold():
    assert needed([1e6] * 8, [0] * 8, settings=ScalingSettings(max_members=5)) == 5
    assert needed([0] * 8, [0] * 8, settings=ScalingSettings(min_members=2)) == 2


def test_while_no_speed_is_known_a_group_keeps_the_members_that_it_has():
    assert needed([9e9] * 8, [1.0] * 8, members=3, speed=None) == 3
    assert needed([9e9] * 8, [1.0] * 8, members=0, speed=None) == 1
    assert needed([0] * 8, [0] * 8, members=3, speed=None) == 1  # there is no work


@given(works, st.floats(0, 1e6), speeds, st.floats(0.1, 10))
def test_the_number_rests_on_ratios_of_records_alone(rate, lag, speed, factor):
    scaled = needed([lag * factor] * rate.size, rate * factor, speed=speed * factor, settings=FREE)
    plain = needed([lag] * rate.size, rate, speed=speed, settings=FREE)
    assert abs(scaled - plain) <= 1  # sums of floats at a bound


class Group:
    """A group whose members follow what is wanted at once."""

    def __init__(self, members, settings=DEFAULT):
        self.members, self.settings, self.wanted = members, settings, MembersWanted()

    def needs(self, number, at):
        self.wanted = self.wanted.after(
            number, members=self.members, settings=self.settings, now=at
        )
        self.members = self.wanted.wanted
        return self.members


def test_more_members_are_wanted_at_once_and_fewer_only_after_the_wait():
    group = Group(2)
    assert [group.needs(5, at=0), group.needs(3, at=10), group.needs(2, at=20)] == [5, 5, 5]
    assert group.needs(2, at=309) == 5
    assert group.needs(2, at=311) == 3
    assert group.needs(2, at=320) == 2
    assert group.needs(6, at=321) == 6


def test_a_daemon_that_has_just_taken_over_scales_nothing_down():
    group = Group(7)
    assert [group.needs(1, at) for at in (0, 200, 299)] == [7, 7, 7]
    assert group.needs(1, at=301) == 1


def test_what_was_needed_last_counts_until_the_next_look_however_late():
    group = Group(4)
    group.needs(4, at=0)
    assert group.needs(1, at=10_000) == 4
    assert group.needs(1, at=10_301) == 1


@given(
    st.lists(st.tuples(st.floats(0.1, 400), st.integers(0, 30)), min_size=1, max_size=60),
    st.floats(0, 1000),
)
def test_what_is_wanted_is_the_most_that_was_needed_within_the_wait(steps, wait):
    settings = ScalingSettings(scale_down_after=wait)
    wanted, now, seen = MembersWanted(), 0.0, []
    for pause, number in steps:
        now += pause
        wanted = wanted.after(number, members=0, settings=settings, now=now)
        if seen:
            seen[-1] = (now, seen[-1][1])
        else:
            seen.append((now, settings.within(0)))
        seen.append((now, number))
        assert wanted.wanted == max(
            [number, *(older for at, older in seen[:-1] if now - at < wait)]
        )
        assert len(wanted.recent) <= len({older for _, older in seen})


def test_no_wait_follows_at_once():
    group = Group(9, ScalingSettings(scale_down_after=0))
    assert [group.needs(9, 0), group.needs(1, 1)] == [9, 1]
