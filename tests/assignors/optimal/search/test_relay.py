"""Relay chains: load that no member can take whole is passed on, all of it or nothing."""

import numpy as np
import pytest

from levelwind.assignors.optimal.bounds import load_moves_bound
from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.relay import relay
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic

# Everybody has 100 or 80, and may have 120; 60 more are to be taken up.
LAGS = [60, 50, 50, 38, 62, 40, 40]
HELD = {"a": [1, 2], "b": [3, 4], "c": [5, 6]}


def model_of(lags=LAGS, held=HELD, racks=None, *, rack_of=None, slack=1, drain=()):
    topics = {"t": Topic(partitions=len(lags), lags=lags, replica_racks=racks)}
    group_members = [
        Member(
            id=name,
            topics="*",
            rack=(rack_of or {}).get(name),
            owned={"t": held.get(name, [])},
            generation=1,
            speed=1.0,
        )
        for name in sorted({*"abc", *held})
    ]
    model = build_model(Group.build(topics, group_members), Options(drain=drain))
    return model.with_slack(slack)


def start_plan(model, giver=0):
    """The current owners, and the unowned partitions with one member."""
    return np.where(model.keepable_owner >= 0, model.keepable_owner, giver).astype(np.int32)


def member_loads(model, owner):
    return model.member_load(owner).tolist()


def test_each_member_on_the_way_keeps_a_little_more_and_passes_on_what_is_lighter():
    model = model_of()
    plan = relay(model, start_plan(model), 120, WorkBudget.of_seconds(1))
    # a takes 60 and passes 50 on; b takes 50 and passes 38 on; c has room for that.
    assert plan.tolist() == [0, 1, 0, 2, 1, 2, 2]
    assert member_loads(model, plan) == [110, 112, 118]
    assert np.count_nonzero(model.moved(plan)) == 2


def test_what_is_within_the_limit_stays_as_it_is():
    model = model_of()
    plan = start_plan(model)
    assert relay(model, plan, 160, WorkBudget.of_seconds(1)) is plan


def test_a_way_that_ends_nowhere_leaves_everything_as_it_was():
    model = model_of(lags=[60, 50, 50, 38, 62, 60, 60])
    plan = start_plan(model)
    assert relay(model, plan, 120, WorkBudget.of_seconds(1)).tolist() == plan.tolist()


def test_what_nobody_held_goes_on_as_it_is_where_it_fits():
    model = model_of(lags=[40, 50, 50, 38, 62, 40, 40])
    plan = relay(model, start_plan(model), 120, WorkBudget.of_seconds(1))
    assert plan.tolist() == [2, 0, 0, 1, 1, 2, 2]
    assert not model.moved(plan).any()


def test_nobody_gets_more_partitions_than_its_most_nor_keeps_less_than_its_least():
    even = model_of(slack=0)  # two each, and one has three
    plan = relay(even, start_plan(even), 120, WorkBudget.of_seconds(1))
    assert sorted(even.member_count(plan).tolist()) == [2, 2, 3]
    fixed_counts = model_of(lags=LAGS[:6], held={"a": [1, 0], "b": [3, 4], "c": [5, 2]}, slack=0)
    plan = start_plan(fixed_counts)
    assert relay(fixed_counts, plan, 105, WorkBudget.of_seconds(1)).tolist() == plan.tolist()


def test_nothing_is_passed_to_where_it_would_cross_racks():
    racks = [["x"], ["x"], ["x"], ["y"], ["y"], ["y"], ["y"]]
    model = model_of(racks=racks, rack_of={"a": "x", "b": "y", "c": "y"})
    plan = start_plan(model)
    assert relay(model, plan, 120, WorkBudget.of_seconds(1)).tolist() == plan.tolist()
    shared = model_of(
        racks=[["x"], ["x", "y"], ["x", "y"], *racks[3:]], rack_of={"a": "x", "b": "y", "c": "y"}
    )
    assert member_loads(
        shared, relay(shared, start_plan(shared), 120, WorkBudget.of_seconds(1))
    ) == [110, 112, 118]


def test_spent_effort_leaves_no_way_half_gone():
    model = model_of()
    plan = start_plan(model)
    budget = WorkBudget.of_seconds(0)
    assert relay(model, plan, 120, budget).tolist() == plan.tolist()
    assert budget.exhausted


@pytest.mark.parametrize(
    ("lags", "limit", "moves"),
    [
        (LAGS, 1_000, 0),  # one takes it all up
        (LAGS, 160, 0),
        (LAGS, 159, 0),  # c, the roomiest, has room for it
        (LAGS, 139, 1),  # two members grow, and only one gets what nobody holds
        (LAGS, 120, 1),  # c takes 40, and another the rest
        (LAGS, 110, 2),
        ([0, *LAGS[1:]], 120, 0),  # nothing to take up
        ([0, *LAGS[1:]], 99, 2),  # a and b are above it
    ],
)
def test_the_fewest_moves_that_load_needs(lags, limit, moves):
    assert load_moves_bound(model_of(lags=lags), limit) == moves


def test_what_is_held_beyond_the_limit_is_taken_up_by_as_many_as_have_room_for_it():
    held = {"a": [0, 1], **{name: [number + 2] for number, name in enumerate("bcdef")}}
    assert load_moves_bound(model_of([100, 100, 80, 80, 80, 80, 80], held), 100) == 5


def test_what_its_holder_may_not_keep_is_a_move_and_what_weighs_nothing_takes_nothing_up():
    assert load_moves_bound(model_of(drain=("c",)), 1_000) == 2
    assert load_moves_bound(model_of([*LAGS, 0, 0, 0]), 120) == 1


def test_of_those_that_have_room_the_fullest_gets_it():
    model = model_of(
        [40, 100, 50, 60, 60, 20, 30], {"a": [1], "b": [2, 5], "c": [3, 6], "d": [4]}, slack=2
    )
    plan = relay(model, start_plan(model), 135, WorkBudget.of_seconds(1))
    assert plan.tolist() == [2, 0, 1, 2, 3, 1, 2]
