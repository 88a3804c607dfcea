"""Load balanced between member classes."""

import numpy as np
import pytest

from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.class_exchange import balance_classes
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic


def model_of(racks, lags, traffic=None):
    """Two members in each of racks a and b: two kinds."""
    topics = {"t": Topic(partitions=len(lags), replica_racks=racks, lags=lags, bytes=traffic)}
    group_members = [
        Member(id=f"{rack}{number}", topics="*", rack=rack) for rack in "ab" for number in (0, 1)
    ]
    return build_model(Group.build(topics, group_members), Options())


def class_loads(model, member_class):
    return np.bincount(member_class, weights=model.load, minlength=2).tolist()


def test_kinds_become_even_and_neither_loses_all_that_is_heavy_nor_all_that_is_light():
    model = model_of([["a", "b"]] * 200, [*range(100, 200), *range(100)])
    member_class = np.repeat([0, 1], 100)
    balance_classes(model, np.arange(200), member_class, WorkBudget.of_seconds(1), racks=True)
    first, second = class_loads(model, member_class)
    assert abs(first - second) <= 0.005 * (first + second) / 2
    assert np.count_nonzero(member_class == 0) == 100
    stayed = np.flatnonzero(member_class[:100] == 0)
    # Of the heaviest quarter about as many stay as of each other.
    assert all(
        8 <= np.count_nonzero((stayed >= low) & (stayed < low + 25)) <= 17
        for low in (0, 25, 50, 75)
    )


def test_nothing_crosses_for_it_unless_it_may_be_paid_for():
    model = model_of([["a"]] * 20 + [["b"]] * 20, [10] * 20 + [2] * 20)
    member_class = np.repeat([0, 1], 20)
    balance_classes(model, np.arange(40), member_class, WorkBudget.of_seconds(1), racks=True)
    assert member_class.tolist() == [0] * 20 + [1] * 20
    balance_classes(
        model, np.arange(40), member_class, WorkBudget.of_seconds(1), racks=True, pay=True
    )
    first, second = class_loads(model, member_class)
    assert abs(first - second) <= 8
    assert np.count_nonzero(member_class == 0) == 20


@pytest.mark.parametrize("racks", [True, False])
def test_where_racks_do_not_count_everything_may_be_exchanged(racks):
    model = model_of([["a"]] * 20 + [["b"]] * 20, [10] * 20 + [2] * 20)
    member_class = np.repeat([0, 1], 20)
    balance_classes(model, np.arange(40), member_class, WorkBudget.of_seconds(1), racks=racks)
    assert (class_loads(model, member_class) == [200, 40]) is racks


def test_of_what_relieves_alike_the_cheapest_crosses():
    model = model_of([["a"]] * 3 + [["b"]] * 3, [50, 50, 0, 0, 0, 0], [100, 1, 1, 1, 1, 1])
    member_class = np.repeat([0, 1], 3)
    balance_classes(
        model, np.arange(6), member_class, WorkBudget.of_seconds(1), racks=True, pay=True
    )
    assert member_class[:2].tolist() == [0, 1]


def test_where_one_side_has_to_pay_the_other_does_not():
    model = model_of([["a"]] * 2 + [["a", "b"]] * 2 + [["b"]] * 4, [50] * 4 + [0] * 4)
    member_class = np.repeat([0, 1], 4)
    balance_classes(
        model, np.arange(8), member_class, WorkBudget.of_seconds(1), racks=True, pay=True
    )
    assert member_class[:4].tolist() == [0, 0, 1, 1]
