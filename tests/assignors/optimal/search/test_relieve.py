"""The most loaded members relieved: shortest time to drain, then moves, then racks."""

import numpy as np
import pytest

from levelwind.assignors.optimal import optimal_plan
from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.relieve import relieve
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import counts


def model_of(lags, held, *, racks=None, slack=0, members="ab"):
    """Members in racks of their own names."""
    topics = {"t": Topic(partitions=len(lags), lags=lags, replica_racks=racks)}
    group_members = [
        Member(
            id=name,
            topics="*",
            rack=name,
            owned={"t": held.get(name, [])},
            generation=1,
            speed=1.0,
        )
        for name in members
    ]
    return build_model(Group.build(topics, group_members), Options()).with_slack(slack)


def owners(text):
    return np.array(["abcdefghijkl".index(name) for name in text], dtype=np.int32)


def relieved(model, owner, limit, max_cross_rack_cost=None):
    return relieve(
        model,
        owner,
        model.keepable_owner,
        limit,
        WorkBudget.of_seconds(1),
        max_cross_rack_cost=max_cross_rack_cost,
    )


def test_what_comes_back_is_what_was_there_before():
    model = model_of([60, 50, 10, 10, 20], {"a": [0, 1, 3], "b": [2, 4]})
    plan = relieved(model, owners("aabbb"), 80)
    # One of 50 for one of 10: the one that a held.
    assert plan.tolist() == owners("abbab").tolist()


def test_within_the_limit_what_was_there_before_goes_home_although_another_would_level_more():
    model = model_of([60, 40, 30, 10, 10], {"a": [0, 1, 4], "b": [2, 3]})
    plan = relieved(model, owners("aaabb"), 120)
    assert model.max_drain_time(plan) <= 120
    assert np.count_nonzero(model.moved(plan)) == 0


def test_of_steps_that_move_as_many_the_one_that_crosses_least_is_taken():
    model = model_of([60, 50, 50, 10, 10], {}, racks=[["a"], ["a"], ["a", "b"], ["b"], ["a", "b"]])
    plan = relieved(model, owners("aaabb"), 120)
    assert model.total_cross_rack_cost(plan) == 0
    assert model.max_drain_time(plan) <= 120


def test_nothing_crosses_that_may_not():
    model = model_of([60, 50, 10, 10], {}, racks=[["a"], ["a"], ["b"], ["b"]])
    start = owners("aabb")
    kept = relieved(model, start, 80, max_cross_rack_cost=0)
    assert kept.tolist() == start.tolist()
    paid = relieved(model, start, 80, max_cross_rack_cost=2)
    assert (model.max_drain_time(paid), model.total_cross_rack_cost(paid)) == (70, 2)


def test_what_comes_back_does_not_cross_where_another_will_do():
    model = model_of([60, 50, 10, 10], {}, racks=[["a"], ["a", "b"], ["b"], ["a", "b"]])
    plan = relieved(model, owners("aabb"), 80)
    assert plan.tolist() == owners("abba").tolist()


def test_moves_come_before_racks_here():
    racks = [["a"], ["a"], ["a", "b"], ["a", "b"], ["a", "b"]]
    model = model_of([60, 50, 50, 10, 10], {"a": [0, 2], "b": [1, 4]}, racks=racks)
    plan = relieved(model, owners("aaabb"), 120)
    assert plan[[1, 2]].tolist() == [1, 0]


def test_members_beyond_the_least_loaded_are_tried_too():
    # What a has is near with it and with l, who has more to do than all others.
    lags = [100, 100, *[10] * 20, 20, 20]
    racks = (
        [["a", "l"]] * 2 + [[name] for name in "bcdefghijk" for _ in range(2)] + [["a", "l"]] * 2
    )
    model = model_of(lags, {}, racks=racks, members="abcdefghijkl")
    text = "aa" + "".join(2 * name for name in "bcdefghijk") + "ll"
    plan = relieved(model, owners(text), 120, max_cross_rack_cost=0)
    assert model.max_drain_time(plan) == 120


def test_steps_that_bring_too_little_are_not_taken_once_it_is_good_enough():
    model = model_of([1000, *range(30, 10, -1)], {}, slack=9)
    start = np.array([0] * 11 + [1] * 10, dtype=np.int32)
    whole = relieved(model, start, 1000)
    assert model.max_drain_time(whole) < 1_120
    lazy = relieve(
        model,
        start,
        model.keepable_owner,
        0,
        WorkBudget.of_seconds(1),
        max_cross_rack_cost=None,
        enough=2000,
    )
    assert model.max_drain_time(whole) <= model.max_drain_time(lazy) <= model.max_drain_time(start)
    assert np.count_nonzero(lazy != start) < np.count_nonzero(whole != start)


@pytest.mark.parametrize("seed", range(2))
def test_a_plan_by_load_alone_is_no_target_where_counts_are_to_be_even(seed):
    topics = {
        "t": Topic(partitions=40),
        "u": Topic(partitions=40, lags=[11 + seed] * 39 + [1]),
    }
    group_members = [Member(id=name, topics="*") for name in "ab"] + [
        Member(id=name, topics=["u"]) for name in "cd"
    ]
    group = Group.build(topics, group_members)
    plan = optimal_plan(group, counts="even")
    assert counts(group, plan.assignment.owner).tolist() == [20] * 4
    assert plan.certificate.counts.met
