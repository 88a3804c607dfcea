"""Rack locality at fixed counts: lowest cross-rack cost, then fewest changes of class."""

import itertools

import numpy as np
import pytest

from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.class_flow import (
    classify_partitions,
    cross_rack_bound,
    solve_class_flow,
)
from levelwind.assignors.optimal.search.construct import construct
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic


def model_of(racks, held, *, traffic=None, members="abc"):
    """A member in each of some racks; what each owns, by rack."""
    topics = {"t": Topic(partitions=len(racks), replica_racks=racks, bytes=traffic)}
    group_members = [
        Member(id=rack, topics="*", rack=rack, owned={"t": held.get(rack, [])}, generation=1)
        for rack in members
    ]
    return build_model(Group.build(topics, group_members), Options())


@pytest.mark.parametrize("copies", [1, 40])
def test_one_crossing_less_is_worth_any_number_of_changes(copies):
    # What is in a alone is with c: it can come home only if all else goes one further.
    racks = [["a"], ["a", "b"], ["b", "c"]] * copies
    held = {
        "c": [*range(0, 3 * copies, 3)],
        "a": [*range(1, 3 * copies, 3)],
        "b": [*range(2, 3 * copies, 3)],
    }
    model = model_of(racks, held)
    plan = construct(model, model.keepable_owner, WorkBudget.of_seconds(1))
    assert model.total_cross_rack_cost(plan) == 0 == cross_rack_bound(model)
    assert model.member_count(plan).tolist() == [copies] * 3


def test_a_long_chain_of_changes_is_worth_one_crossing_too():
    names = [f"r{number:02}" for number in range(80)]
    racks = [[names[0]], *([rack, next_rack] for rack, next_rack in itertools.pairwise(names))]
    held = {names[-1]: [0], **{name: [number + 1] for number, name in enumerate(names[:-1])}}
    model = model_of(racks, held, members=names)
    assert model.total_cross_rack_cost(model.keepable_owner) == 1
    assert (
        model.total_cross_rack_cost(
            construct(model, model.keepable_owner, WorkBudget.of_seconds(1))
        )
        == 0
    )


def test_what_weighs_most_stays_near_whatever_the_number_of_the_others():
    model = model_of([["a"]] * 6, {}, traffic=[1, 1, 1, 1, 50, 50], members="ab")
    plan = construct(model, model.keepable_owner, WorkBudget.of_seconds(1))
    assert plan[[4, 5]].tolist() == [0, 0]
    assert model.total_cross_rack_cost(plan) == 3 == cross_rack_bound(model)


def test_nothing_changes_its_kind_of_owner_without_a_reason():
    model = model_of([["a", "b", "c"]] * 6, {"a": [0, 5], "b": [1, 4], "c": [2, 3]})
    flow = solve_class_flow(model, classify_partitions(model, model.keepable_owner), "all")
    assert not flow.released.any()
    assert (
        construct(model, model.keepable_owner, WorkBudget.of_seconds(1)).tolist()
        == model.keepable_owner.tolist()
    )


def test_what_is_held_across_racks_stays_there_where_only_the_free_are_to_be_near():
    model = model_of([["a"], ["b"], ["a", "b"], ["b"]], {"a": [1], "b": [0]}, members="ab")
    assert (
        model.total_cross_rack_cost(
            construct(model, model.keepable_owner, WorkBudget.of_seconds(1), "unowned")
        )
        == 2
    )
    assert (
        model.total_cross_rack_cost(
            construct(model, model.keepable_owner, WorkBudget.of_seconds(1), "all")
        )
        == 0
    )


def test_what_suits_several_kinds_is_spread_over_them_by_their_members():
    topics = {"t": Topic(partitions=90, replica_racks=[["a", "b"]] * 60 + [["c"]] * 30)}
    group_members = [
        Member(id=f"{rack}{n}", topics="*", rack=rack)
        for rack, n in zip("abbccc", range(6), strict=True)
    ]
    model = build_model(Group.build(topics, group_members), Options()).with_slack(8)
    flow = solve_class_flow(model, classify_partitions(model, model.keepable_owner), "all")
    amounts = {}
    for partition_class, member_class, number in zip(
        flow.partition_class, flow.member_class, flow.amount, strict=True
    ):
        amounts[int(partition_class), int(model.class_rack[member_class])] = int(number)
    both = int(classify_partitions(model, model.keepable_owner).class_of[0])
    assert amounts[both, 1] == 2 * amounts[both, 0] == 40
    assert np.sum(list(amounts.values())) == 90


def test_a_more_even_spread_is_worth_no_change():
    # Were two of what a holds with b, then what is near in a and b were spread over both.
    racks = [["a", "b", "c"]] * 7 + [["a", "b"]] * 4
    model = model_of(racks, {"a": [0, 1, 2, 3]})
    plan = construct(model, model.keepable_owner, WorkBudget.of_seconds(1))
    assert plan[:4].tolist() == [0] * 4
    assert model.total_cross_rack_cost(plan) == 0


def test_what_weighs_next_to_nothing_beside_others_is_still_kept_near():
    model = model_of(
        [["a"], *[["a"]] * 20, *[["b"]] * 20, ["b"]], {}, traffic=[2**30, *[1] * 40, 2**30]
    )
    plan = construct(model, model.keepable_owner, WorkBudget.of_seconds(1))
    assert model.total_cross_rack_cost(plan) == model.member_count(plan)[2]


def test_the_bound_is_not_above_what_next_to_nothing_costs():
    model = model_of([["a"]] * 11, {}, traffic=[2**30, *[1] * 10], members="ab")
    plan = construct(model, model.keepable_owner, WorkBudget.of_seconds(1))
    assert model.total_cross_rack_cost(plan) == 5
    assert cross_rack_bound(model) <= 5
