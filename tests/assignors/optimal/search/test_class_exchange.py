"""Load levelled between kinds of members."""

import numpy as np
import pytest

from assignors.optimal.model.model import terms
from assignors.optimal.model.plan_options import Options
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.search.class_exchange import levelled_kinds
from assignors.problem.group import Group
from assignors.problem.inputs import (
    Member,
    Topic,
)


def stated(racks, lags, traffic=None):
    """Two members in each of racks a and b: two kinds."""
    topics = {"t": Topic(partitions=len(lags), replica_racks=racks, lags=lags, bytes=traffic)}
    people = [
        Member(id=f"{rack}{number}", topics="*", rack=rack) for rack in "ab" for number in (0, 1)
    ]
    return terms(Group.build(topics, people), Options())


def work(problem, kind):
    return np.bincount(kind, weights=problem.load, minlength=2).tolist()


def test_kinds_become_even_and_neither_loses_all_that_is_heavy_nor_all_that_is_light():
    problem = stated([["a", "b"]] * 200, [*range(100, 200), *range(100)])
    kind = np.repeat([0, 1], 100)
    levelled_kinds(problem, np.arange(200), kind, WorkBudget.of(1), racks=True)
    first, second = work(problem, kind)
    assert abs(first - second) <= 0.005 * (first + second) / 2
    assert np.count_nonzero(kind == 0) == 100
    stayed = np.flatnonzero(kind[:100] == 0)
    # Of the heaviest quarter about as many stay as of each other.
    assert all(
        8 <= np.count_nonzero((stayed >= low) & (stayed < low + 25)) <= 17
        for low in (0, 25, 50, 75)
    )


def test_nothing_crosses_for_it_unless_it_may_be_paid_for():
    problem = stated([["a"]] * 20 + [["b"]] * 20, [10] * 20 + [2] * 20)
    kind = np.repeat([0, 1], 20)
    levelled_kinds(problem, np.arange(40), kind, WorkBudget.of(1), racks=True)
    assert kind.tolist() == [0] * 20 + [1] * 20
    levelled_kinds(problem, np.arange(40), kind, WorkBudget.of(1), racks=True, pay=True)
    first, second = work(problem, kind)
    assert abs(first - second) <= 8
    assert np.count_nonzero(kind == 0) == 20


@pytest.mark.parametrize("racks", [True, False])
def test_where_racks_do_not_count_everything_may_be_exchanged(racks):
    problem = stated([["a"]] * 20 + [["b"]] * 20, [10] * 20 + [2] * 20)
    kind = np.repeat([0, 1], 20)
    levelled_kinds(problem, np.arange(40), kind, WorkBudget.of(1), racks=racks)
    assert (work(problem, kind) == [200, 40]) is racks


def test_of_what_relieves_alike_the_cheapest_crosses():
    problem = stated([["a"]] * 3 + [["b"]] * 3, [50, 50, 0, 0, 0, 0], [100, 1, 1, 1, 1, 1])
    kind = np.repeat([0, 1], 3)
    levelled_kinds(problem, np.arange(6), kind, WorkBudget.of(1), racks=True, pay=True)
    assert kind[:2].tolist() == [0, 1]


def test_where_one_side_has_to_pay_the_other_does_not():
    problem = stated([["a"]] * 2 + [["a", "b"]] * 2 + [["b"]] * 4, [50] * 4 + [0] * 4)
    kind = np.repeat([0, 1], 4)
    levelled_kinds(problem, np.arange(8), kind, WorkBudget.of(1), racks=True, pay=True)
    assert kind[:4].tolist() == [0, 0, 1, 1]
