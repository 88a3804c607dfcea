"""The members below the largest load levelled: their loads in order, and what must not change."""

import numpy as np
import pytest
from hypothesis import given, settings

from levelwind.assignors.optimal.model.load_limits import load_limits, mean_of_rest
from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.construct import construct
from levelwind.assignors.optimal.search.level import level, level_fully
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind_testing.examples import examples
from levelwind_testing.groups.exhaustive import rank_limits
from levelwind_testing.groups.random_groups import ProblemShape, problems


def model_of(lags, members, *, racks=None):
    topics = {"t": Topic(partitions=len(lags), lags=lags, replica_racks=racks)}
    group_members = [Member(id=name, topics="*", rack=name, speed=1.0) for name in members]
    model = build_model(Group.build(topics, group_members), Options())
    return model.with_slack(model.limits.largest_slack)


def owners(text):
    return np.array(["abcdef".index(name) for name in text], dtype=np.int32)


def budget():
    return WorkBudget.of_seconds(1)


def test_what_the_second_has_too_much_goes_to_the_third():
    model = model_of([100, 30, 30, 30, 30, 0], "abc")
    plan = level_fully(model, owners("abbbbc"), budget())
    assert model.drain_time(plan).tolist() == [100, 60, 60]


def test_below_a_load_that_cannot_be_lowered_the_next_ones_are_tried():
    # Neither 100 nor 80 can be divided; below them b's two are one too many.
    model = model_of([100, 80, 20, 20, 0], "abcd")
    plan = level_fully(model, owners("acbbd"), budget())
    assert sorted(model.drain_time(plan).tolist()) == [20, 20, 80, 100]


def test_nothing_crosses_racks_for_it():
    racks = [["a"], ["b"], ["b"], ["b"], ["b"], ["c"]]
    model = model_of([100, 30, 30, 30, 30, 0], "abc", racks=racks)
    start = owners("abbbbc")
    assert level_fully(model, start, budget()).tolist() == start.tolist()


def test_only_loads_above_the_limit_of_their_rank_are_lowered():
    model = model_of([100, 30, 30, 30, 29, 29, 28], "abc")
    limits = load_limits(model, owners("abbcccb"), 102.0)
    assert limits.by_rank.tolist() == [102.0, 88 * 1.02, 88 * 1.02]
    start = owners("abbbccc")  # 90 and 86: b is above 89.76
    plan = level(model, start, start, limits.of_members, budget(), max_cross_rack_cost=0)
    assert np.count_nonzero(plan != start) == 2
    assert sorted(model.drain_time(plan).tolist()) == [88, 88, 100]


def test_a_group_that_can_be_level_has_one_limit():
    model = model_of([30, 31, 30, 30, 30, 29], "abc")
    assert set(load_limits(model, owners("abcabc"), 70.0).by_rank) == {60 * 1.02}
    # No limit exceeds the largest.
    assert set(load_limits(model, owners("abcabc"), 61.0).by_rank) == {61.0}


def test_widened_limits_stay_for_a_member_that_reads_one_partition_alone():
    model = model_of([100, 40, 40, 30, 30, 0], "abc")
    limits = load_limits(model, owners("abcbca"), 102.0)
    assert limits.unsplit.tolist() == [True, False, False]
    assert limits.widened(0.1).by_rank.tolist() == pytest.approx([102, 78.54, 78.54])
    assert limits.widened(0.5).by_rank.tolist() == pytest.approx([107.1, 107.1, 107.1])


@pytest.mark.parametrize(
    ("moderate", "wide"),
    [(60.0, 62.424), (70.0, 70.0), (90.0, 73.44)],
    ids=["a limit above it", "a limit that reaches it", "a limit far below it"],
)
def test_limits_are_widened_further_as_far_as_loads_are_moderate(moderate, wide):
    limits = load_limits(model_of([30, 31, 30, 30, 30, 29], "abc"), owners("abcabc"), 70.0)
    widened = limits.widened(0.02, moderate=moderate, moderate_share=0.2)
    assert widened.by_rank.tolist() == pytest.approx([wide] * 3)


@given(random_problem=problems(ProblemShape(topics=4, partitions=8, members=5)))
@settings(max_examples=examples(60))
def test_it_costs_nothing_in_counts_and_racks_and_no_load_rises_above_those_before(random_problem):
    model = build_model(random_problem.group, Options())
    nobody = np.full(len(model.reader_set), -1, dtype=np.int32)
    start = construct(model, nobody, budget())
    plan = level_fully(model, start, budget())
    assert model.is_feasible(plan)
    assert model.total_cross_rack_cost(plan) <= model.total_cross_rack_cost(start)
    before, after = (np.sort(model.drain_time(owner))[::-1].tolist() for owner in (start, plan))
    assert after == before or after < before
    # Once more changes nothing.
    assert level_fully(model, plan, budget()).tolist() == plan.tolist()


@given(random_problem=problems())
@settings(max_examples=examples(60))
def test_limits_are_those_of_the_law_written_without_arrays(random_problem):
    model = build_model(random_problem.group, Options(load_floor=1.0))
    nobody = np.full(len(model.reader_set), -1, dtype=np.int32)
    start = construct(model, nobody, budget())
    loads = model.drain_time(start)
    largest = model.options.acceptable_drain_time(float(loads.max(initial=0.0)))
    limit = load_limits(model, start, largest).of_members(loads)
    for number in set(model.component.tolist()):
        members = np.flatnonzero(model.component == number)
        order = sorted(members.tolist(), key=lambda member: -loads[member])
        expected = rank_limits(
            loads[order].tolist(), model.capacity[order].tolist(), largest, 0.02, 1.0
        )
        np.testing.assert_allclose(limit[order], expected, rtol=1e-12)
    assert (mean_of_rest(model, loads) <= loads * (1 + 1e-12)).all()
