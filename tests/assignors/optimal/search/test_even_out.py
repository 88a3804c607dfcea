from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.search.even_out import even_out
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind_testing.groups.random_groups import problems


def model_of(group, slack=8):
    return build_model(group, Options()).with_slack(slack)


def squares(model, owner):
    return int((model.member_count(owner).astype(np.int64) ** 2).sum())


def test_partitions_of_a_member_that_left_even_out_the_counts():
    group = Group.build(
        {"t": Topic(partitions=7, lags=[9, 9, 9, 1, 1, 1, 1])},
        [
            Member(id="a", topics=["t"], owned={"t": [0]}),
            Member(id="b", topics=["t"], owned={"t": [1]}),
            Member(id="c", topics=["t"], owned={"t": [2]}),
        ],
    )
    owner = even_out(model_of(group), np.array([0, 1, 2, 0, 0, 0, 0], np.int32), 1e9)
    assert sorted(np.bincount(owner)) == [2, 2, 3]
    assert owner[:3].tolist() == [0, 1, 2]


def test_a_load_at_the_limit_takes_no_more():
    group = Group.build(
        {"t": Topic(partitions=4, lags=[9, 1, 1, 1])},
        [Member(id=name, topics=["t"], owned={}) for name in "ab"],
    )
    model, owner = model_of(group), np.array([0, 1, 1, 1], np.int32)
    assert even_out(model, owner, model.max_drain_time(owner)).tolist() == owner.tolist()


def test_a_member_that_took_many_passes_some_on():
    """`a` takes three partitions of `b`, so that it has two more than `d` at last."""
    group = Group.build(
        {"1-all": Topic(partitions=3), "2-ab": Topic(partitions=1), "3-b": Topic(partitions=5)},
        [
            Member(id="a", topics=["1-all", "2-ab"]),
            Member(id="b", topics=["1-all", "2-ab", "3-b"]),
            Member(id="d", topics=["1-all"]),
            Member(id="e", topics=[]),
        ],
    )
    model, owner = model_of(group), np.array([2, 1, 1, 1, 1, 1, 1, 1, 1], np.int32)
    after = even_out(model, owner, 0.0)
    assert model.member_count(after).tolist() == [2, 5, 2, 0]


def random_plan(model, seed):
    """A plan in which about half of the partitions stay with their owners."""
    draw = np.random.default_rng(seed)
    owner = np.full(len(model.reader_set), -1, np.int32)
    for partition in np.flatnonzero(model.assignable):
        readers = np.flatnonzero(
            [bool(model.may_own(partition, member)) for member in range(len(model.member_class))]
        )
        current = model.current_owner[partition]
        keeps = current in readers and draw.random() < 0.5
        owner[partition] = current if keeps else draw.choice(readers)
    return owner


def evened_out_plainly(model, owner, max_drain_time):
    """The same greedy search, which asks every member about every partition."""
    owner, free = owner.copy(), (owner >= 0) & (owner != model.current_owner)
    count, load = model.member_count(owner), model.member_load(owner)
    fewest = count.min()
    for giver in np.argsort(-count, kind="stable"):
        own = np.flatnonzero((owner == giver) & free)
        for partition in own[np.argsort(model.load[own], kind="stable")]:
            if count[giver] - fewest < 2 or count[giver] <= model.min_count[giver]:
                break
            takers = [
                member
                for member in range(len(count))
                if count[member] < min(count[giver] - 1, model.max_count[member])
                and load[member] + model.load[partition] <= max_drain_time * model.capacity[member]
                and model.may_own(partition, member)
                and member != model.current_owner[partition]
                and model.cross_rack_cost(partition, member)
                <= model.cross_rack_cost(partition, giver)
            ]
            if takers:
                taker = min(takers, key=lambda member: count[member])
                owner[partition] = taker
                count += np.eye(len(count), dtype=int)[taker] - np.eye(len(count), dtype=int)[giver]
                load[giver] -= model.load[partition]
                load[taker] += model.load[partition]
    return owner


@given(random_problem=problems(), seed=st.integers(0, 2**32), room=st.floats(1.0, 1.5))
def test_no_shortcut_changes_who_gets_what(random_problem, seed, room):
    model = model_of(random_problem.group)
    owner = random_plan(model, seed)
    limit = model.max_drain_time(owner) * room
    after = even_out(model, owner, limit)
    assert after.tolist() == evened_out_plainly(model, owner, limit).tolist()


@given(random_problem=problems(), seed=st.integers(0, 2**32))
def test_it_costs_nothing_in_load_racks_and_moves(random_problem, seed):
    model = model_of(random_problem.group)
    owner = random_plan(model, seed)
    limit = model.max_drain_time(owner)
    model = replace(model, max_count=np.maximum(model.max_count, model.member_count(owner)))
    after = even_out(model, owner, limit)
    assert np.array_equal(after >= 0, owner >= 0)
    assert model.max_drain_time(after) <= limit * (1 + 1e-9)
    assert model.total_cross_rack_cost(after) <= model.total_cross_rack_cost(owner)
    assert model.moved(after).sum() <= model.moved(owner).sum()
    assert np.all(model.may_own(np.flatnonzero(after >= 0), after[after >= 0]))
    assert squares(model, after) <= squares(model, owner)
