"""Lag and load by member, and the skew of loads."""

import numpy as np
import pytest

from assignors.problem.member_load import lag_by_member, load_by_member, skew_of

LAG = np.array([30, 10, 5, 100], np.int64)
OWNER = np.array([0, 2, 0, -1], np.int32)


def test_lag_is_summed_by_owner_and_what_nobody_owns_counts_for_nobody():
    assert lag_by_member(LAG, OWNER, 3).tolist() == [35, 0, 10]


def test_load_is_lag_over_capacity():
    assert load_by_member(LAG, OWNER, np.array([7.0, 1.0, 0.5])).tolist() == [5, 0, 20]


def test_a_group_without_partitions_has_idle_members():
    nothing = np.zeros(0, np.int64)
    assert load_by_member(nothing, nothing, np.ones(2)).tolist() == [0, 0]


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
