"""Count limits of slacks: nested, around the most even counts, towards proportion to capacity."""

import numpy as np
import pytest
from hypothesis import given, settings

from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind_testing.examples import examples
from levelwind_testing.groups.random_groups import problems


def limits_of(partitions, capacities, **options):
    members = [
        Member(id=f"m{number}", topics="*", capacity=capacity)
        for number, capacity in enumerate(capacities)
    ]
    group = Group.build({"t": Topic(partitions=partitions)}, members)
    return build_model(group, Options(**options)).limits


def columns(limits, slack):
    return [column.tolist() for column in limits.of_slack(slack)]


def test_slack_widens_the_even_counts_by_itself():
    limits = limits_of(31, [1.0] * 3)
    assert columns(limits, 0) == [[10] * 3, [11] * 3]
    assert columns(limits, 4) == [[6] * 3, [15] * 3]


@pytest.mark.parametrize(
    ("bound", "widest"), [(None, [[0] * 3, [22] * 3]), (2, [[8] * 3, [13] * 3])]
)
def test_the_bound_is_the_even_count_unless_it_is_set(bound, widest):
    limits = limits_of(31, [1.0] * 3, count_slack=bound)
    assert columns(limits, limits.largest_slack) == columns(limits, 99) == widest


def test_few_partitions_have_slack_all_the_same_and_even_counts_none():
    assert columns(limits_of(3, [1.0] * 3), 99) == [[0] * 3, [9] * 3]
    assert limits_of(31, [1.0] * 3, counts="even", count_slack=5).largest_slack == 0


def test_where_capacities_differ_slack_starts_at_the_counts_in_proportion():
    limits = limits_of(40, [1.0, 3.0])
    assert columns(limits, 0) == [[20, 20], [20, 20]]
    assert columns(limits, 1) == [[9, 19], [21, 31]]
    assert columns(limits_of(40, [1.0, 3.0], count_slack=5), 1) == [[15, 19], [21, 25]]


@given(random_problem=problems())
@settings(max_examples=examples(50))
def test_the_limits_of_a_slack_hold_those_of_every_smaller_one(random_problem):
    model = build_model(random_problem.group, Options())
    least, most = model.limits.of_slack(0)
    for slack in (1, 2, 5, model.limits.largest_slack):
        wider = model.limits.of_slack(slack)
        assert np.all(wider[0] <= least) or slack > model.limits.largest_slack
        assert np.all(wider[1] >= most) or slack > model.limits.largest_slack
        wide = model.with_slack(slack)
        assert np.all(wide.min_count <= wide.max_count)
        # Whoever may own a partition at even counts may own it at any.
        assert np.all(model.allowed <= wide.allowed)
