from collections import deque
from functools import partial

import pytest
from hypothesis import given

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.sticky import sticky_strategy
from levelwind_testing.groups.examples import (
    BLOG_MEMBERS,
    BLOG_TOPICS,
    KIP_49_MEMBERS,
    KIP_49_TOPICS,
    planned_names,
)
from levelwind_testing.groups.random_groups import ProblemShape, problems

planned = partial(planned_names, sticky_strategy)


def test_the_blogs_example_moves_only_what_the_leaver_had():
    before = {"C1": {"A": [0], "B": [1]}, "C2": {"A": [1]}, "C3": {"B": [0]}}
    assert planned(BLOG_TOPICS, BLOG_MEMBERS) == before
    stayed = [
        Member(id=name, topics="*", owned=before[name], generation=1) for name in ("C1", "C3")
    ]
    assert planned(BLOG_TOPICS, stayed) == {"C1": {"A": [0], "B": [1]}, "C3": {"A": [1], "B": [0]}}


def test_kip_49s_subscriptions_are_balanced():
    group = Group.build(KIP_49_TOPICS, KIP_49_MEMBERS)
    assert score(group, sticky_strategy(group)).spread == 0


def test_a_new_member_takes_as_little_as_balance_asks():
    topics = {"t": Topic(partitions=7)}
    members = [
        Member(id="a", topics="*", owned={"t": [0, 1, 2, 3]}, generation=1),
        Member(id="b", topics="*", owned={"t": [4, 5, 6]}, generation=1),
        Member(id="c", topics="*"),
    ]
    group = Group.build(topics, members)
    worth = score(group, sticky_strategy(group))
    assert (worth.spread, worth.cross_rack, worth.moved) == (1, None, 2)


def test_a_zombies_claims_lose_and_a_double_claim_is_nobodys():
    topics = {"t": Topic(partitions=4)}
    members = [
        Member(id="a", topics="*", owned={"t": [0, 1, 2]}, generation=4),
        Member(id="b", topics="*", owned={"t": [0, 1]}, generation=5),
    ]
    assert planned(topics, members) == {"a": {"t": [2, 3]}, "b": {"t": [0, 1]}}


@pytest.mark.parametrize("equal", [True, False])
def test_claims_of_deleted_or_unsubscribed_topics_are_harmless(equal):
    topics = {"small": Topic(partitions=1), "other": Topic(partitions=1)}
    members = [
        Member(
            id="a",
            topics=["small"],
            owned={"small": [0, 1, 7, -1], "gone": [0], "other": [0]},
            generation=5,
        ),
        Member(id="b", topics=["small"] if equal else ["small", "other"], owned={}, generation=5),
    ]
    plan = planned(topics, members)
    assert plan["a"] == {"small": [0]}
    assert plan["b"] == ({} if equal else {"other": [0]})


def test_a_claim_is_given_up_for_an_owner_in_the_rack_of_a_replica():
    topics = {"t": Topic(partitions=2, replica_racks=[["a"], ["b"]])}
    members = [
        Member(id="x", topics="*", rack="a", owned={"t": [1]}, generation=1),
        Member(id="y", topics="*", rack="b", owned={"t": [0]}, generation=1),
    ]
    assert planned(topics, members) == {"x": {"t": [0]}, "y": {"t": [1]}}


def test_a_remote_claim_stays_where_no_slot_is_rack_local():
    topics = {"t": Topic(partitions=4, replica_racks=[["a"], ["a"], ["a"], ["a"]])}
    members = [
        Member(id="x", topics="*", rack="a", owned={"t": [0, 1]}, generation=1),
        Member(id="y", topics="*", rack="b", owned={"t": [2, 3]}, generation=1),
    ]
    assert planned(topics, members) == {"x": {"t": [0, 1]}, "y": {"t": [2, 3]}}


def test_remote_partitions_are_exchanged_across_topics():
    topics = {
        "only-x": Topic(partitions=1, replica_racks=[["a"]]),
        "t": Topic(partitions=1, replica_racks=[["a"]]),
        "u": Topic(partitions=1, replica_racks=[["b"]]),
        "only-y": Topic(partitions=1, replica_racks=[["b"]]),
    }
    members = [
        Member(
            id="x",
            topics=["only-x", "t", "u"],
            rack="a",
            owned={"only-x": [0], "u": [0]},
            generation=1,
        ),
        Member(
            id="y",
            topics=["only-y", "t", "u"],
            rack="b",
            owned={"only-y": [0], "t": [0]},
            generation=1,
        ),
    ]
    assert planned(topics, members) == {
        "x": {"only-x": [0], "t": [0]},
        "y": {"only-y": [0], "u": [0]},
    }


@given(problem=problems(ProblemShape(racks=0, partitions=5)))
def test_no_chain_of_moves_would_narrow_a_gap_of_two(problem):
    group = problem.group
    owner = sticky_strategy(group).owner.tolist()
    load = [owner.count(member) for member in range(len(group.members))]
    passes = {
        member: {
            reader
            for partition, its_owner in enumerate(owner)
            if its_owner == member
            for reader in group.readers(int(group.partition_topic[partition])).tolist()
        }
        for member in range(len(group.members))
    }
    for source in passes:
        reached, queue = {source}, deque([source])
        while queue:
            for onward in passes[queue.popleft()] - reached:
                reached.add(onward)
                queue.append(onward)
        assert all(load[member] >= load[source] - 1 for member in reached)
