"""Sticky plans beside the optimum, found by OR-tools as one minimum-cost flow."""

from random import Random

import numpy as np
import pytest
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.locality import rack_remote_at
from levelwind.assignors.sticky import kept_claims, sticky_strategy
from levelwind_testing.groups.random_groups import ProblemShape, seeded_problem

# A partition that joins k others at a member costs (2k + 1) * REMOTE_COST² besides.
MOVE_COST, REMOTE_COST = 1, 10_000


def optimal_worth(group):
    """Squares of the loads, remote partitions and moves of a plan that no plan beats."""
    flow, held = SimpleMinCostFlow(), kept_claims(group)
    readable = np.flatnonzero(group.has_reader()).tolist()
    source, sink = (
        group.partition_count + len(group.members),
        group.partition_count + len(group.members) + 1,
    )
    for partition in readable:
        flow.add_arc_with_capacity_and_unit_cost(source, partition, 1, 0)
        for reader in group.readers(int(group.partition_topic[partition])).tolist():
            only_owner = np.full(group.partition_count, NOBODY, dtype=np.int32)
            only_owner[partition] = reader
            cost = REMOTE_COST * int(rack_remote_at(group, only_owner)[partition]) + MOVE_COST * (
                held[partition] not in {NOBODY, reader}
            )
            flow.add_arc_with_capacity_and_unit_cost(
                partition, group.partition_count + reader, 1, int(cost)
            )
    for member in range(len(group.members)):
        for load in range(len(readable)):
            flow.add_arc_with_capacity_and_unit_cost(
                group.partition_count + member, sink, 1, (2 * load + 1) * REMOTE_COST**2
            )
    flow.set_node_supply(source, len(readable))
    flow.set_node_supply(sink, -len(readable))
    assert flow.solve() == flow.OPTIMAL
    squares, rest = divmod(flow.optimal_cost(), REMOTE_COST**2)
    return (squares, *divmod(rest, REMOTE_COST))


def worth(group, owner):
    """Squares of the loads, remote partitions and moves of a plan, as `optimal_worth`."""
    held = kept_claims(group)
    count = np.bincount(owner[owner >= 0])
    moved = (held >= 0) & (owner != held)
    return int((count**2).sum()), int(rack_remote_at(group, owner).sum()), int(moved.sum())


@pytest.mark.parametrize("first", [0, 10_000])
def test_no_plan_is_better_than_sticky_where_members_read_different_topics(first):
    compared = 0
    for seed in range(first, first + 150):
        group = seeded_problem(seed, ProblemShape(equal=False, lags=False)).group
        if not group.equal_subscriptions and group.has_reader().any():
            compared += 1
            assert worth(group, sticky_strategy(group).owner) == optimal_worth(group), (
                f"seed {seed}"
            )
    assert compared > 100


def test_no_plan_is_better_than_sticky_where_members_of_equal_subscriptions_came_and_went():
    compared = 0
    for seed in range(150):
        group = seeded_problem(seed, ProblemShape(equal=True, lags=False, partitions=6)).group
        held, owner = kept_claims(group), sticky_strategy(group).owner
        if (held >= 0).any() and (owner != held).any() and group.has_reader().any():
            compared += 1
            assert worth(group, owner) == optimal_worth(group), f"seed {seed}"
    assert compared > 75


def test_a_group_at_rest_moves_only_remote_partitions():
    """Remote partitions exchange slots; a local partition does not move for another's sake."""
    topics = {"t": Topic(partitions=3, replica_racks=[["b", "c"], ["a", "b"], ["a", "b"]])}
    members = [
        Member(id=name, topics="*", rack=rack, owned={"t": [partition]}, generation=1)
        for name, rack, partition in (("x", "a", 1), ("y", "b", 0), ("z", "c", 2))
    ]
    group = Group.build(topics, members)
    assert sticky_strategy(group).to_names(group) == {
        "x": {"t": [1]},
        "y": {"t": [0]},
        "z": {"t": [2]},
    }
    assert optimal_worth(group) == (3, 0, 2)


def test_a_group_at_rest_moves_nothing_to_a_member_of_unknown_rack():
    topics = {"t": Topic(partitions=2, replica_racks=[["b"], ["b", "c"]])}
    members = [
        Member(id="x", topics="*", rack="a", owned={"t": [0]}, generation=1),
        Member(id="y", topics="*"),
        Member(id="z", topics="*", rack="b", owned={"t": [1]}, generation=1),
    ]
    group = Group.build(topics, members)
    assert sticky_strategy(group).to_names(group) == {"x": {"t": [0]}, "y": {}, "z": {"t": [1]}}


def test_chains_of_any_length_make_remote_partitions_local():
    """Each topic's two readers are in different racks; only a chain through all of them helps."""
    size = 40
    topics = {
        f"t{n:02}": Topic(partitions=1, replica_racks=[["a" if n % 2 else "b"]])
        for n in range(size)
    }
    members = [
        Member(
            id=f"m{n:02}",
            topics=[f"t{n:02}", f"t{(n + 1) % size:02}"],
            rack="a" if n % 2 else "b",
            owned={f"t{(n + 1) % size:02}": [0]},
            generation=1,
        )
        for n in range(size)
    ]
    group = Group.build(topics, members)
    assert worth(group, sticky_strategy(group).owner) == (size, 0, size)


def test_many_members_that_join_cost_no_more_moves_than_they_must():
    draw = Random(3)
    names = [f"t{n}" for n in range(12)]
    topics = {
        name: Topic(partitions=12, replica_racks=[draw.sample("abc", 2) for _ in range(12)])
        for name in names
    }
    everybody = [
        Member(id=f"m{n:02}", topics=draw.sample(names, 4), rack=draw.choice("abc"))
        for n in range(24)
    ]
    first = Group.build(topics, everybody[:16])
    owned = sticky_strategy(first).to_names(first)
    joined = [
        Member(
            id=m.id,
            topics=m.topics,
            rack=m.rack,
            owned=owned.get(m.id),
            generation=1 if m.id in owned else -1,
        )
        for m in everybody
    ]
    group = Group.build(topics, joined)
    assert worth(group, sticky_strategy(group).owner) == optimal_worth(group)
