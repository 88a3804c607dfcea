from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.strategies.cooperative_sticky import cooperative_sticky_strategy
from levelwind_testing.examples import examples
from levelwind_testing.groups.random_groups import problems


def test_what_moves_is_withheld_until_its_owner_has_given_it_up():
    topics = {"t": Topic(partitions=2)}
    owner = Member(id="a", topics="*", owned={"t": [0, 1]}, generation=1)
    group = Group.build(topics, [owner, Member(id="b", topics="*")])
    first = cooperative_sticky_strategy(group)
    assert first.to_names(group) == {"a": {"t": [0]}, "b": {}}
    assert first.withheld_names(group) == {"b": {"t": [1]}}
    settled = [replace(owner, owned={"t": [0]}), Member(id="b", topics="*", owned={}, generation=1)]
    group = Group.build(topics, settled)
    second = cooperative_sticky_strategy(group)
    assert second.withheld is None
    assert second.to_names(group) == {"a": {"t": [0]}, "b": {"t": [1]}}


def test_what_nobody_holds_is_given_at_once():
    group = Group.build({"t": Topic(partitions=2)}, [Member(id=name, topics="*") for name in "ab"])
    assert cooperative_sticky_strategy(group).withheld is None


def test_both_sides_of_a_double_claim_give_it_up_first():
    members = [Member(id=name, topics="*", owned={"t": [0]}, generation=5) for name in "ab"]
    group = Group.build({"t": Topic(partitions=1)}, members)
    assert cooperative_sticky_strategy(group).to_names(group) == {"a": {}, "b": {}}
    assert cooperative_sticky_strategy(group).withheld_names(group) == {"a": {"t": [0]}}


def test_a_claim_of_an_older_generation_holds_nothing_up():
    members = [
        Member(id="a", topics="*", owned={"t": [0, 1]}, generation=4),
        Member(id="b", topics="*", owned={"t": [0]}, generation=5),
    ]
    group = Group.build({"t": Topic(partitions=2)}, members)
    assert cooperative_sticky_strategy(group).to_names(group) == {"a": {"t": [1]}, "b": {"t": [0]}}
    assert cooperative_sticky_strategy(group).withheld is None


UNSUBSCRIBED = Member(id="a", topics=["u"], owned={"t": [0]}, generation=5)
"""A member that claims a partition of a topic that it no longer reads."""


@pytest.mark.parametrize("generation", [5, 4], ids=["same generation", "older generation"])
def test_an_owner_keeps_what_a_member_that_no_longer_reads_the_topic_claims_too(generation):
    """Kafka's answer; its classes are asked in `tests/assignors/test_against_kafka.py`."""
    owner = Member(id="b", topics=["t"], owned={"t": [0, 1]}, generation=generation)
    topics = {"t": Topic(partitions=2), "u": Topic(partitions=1)}
    group = Group.build(topics, [UNSUBSCRIBED, owner])
    answer = cooperative_sticky_strategy(group)
    assert answer.withheld is None
    assert answer.to_names(group) == {"a": {"u": [0]}, "b": {"t": [0, 1]}}


def test_what_only_a_member_that_no_longer_reads_the_topic_claims_is_withheld_for_a_round():
    topics = {"t": Topic(partitions=2), "u": Topic(partitions=1)}
    reader = Member(id="b", topics=["t"], owned={"t": [1]}, generation=5)
    group = Group.build(topics, [UNSUBSCRIBED, reader])
    answer = cooperative_sticky_strategy(group)
    assert answer.to_names(group) == {"a": {"u": [0]}, "b": {"t": [1]}}
    assert answer.withheld_names(group) == {"b": {"t": [0]}}


@pytest.mark.slow
@given(problem=problems())
@settings(max_examples=examples(300))
def test_one_further_round_settles_the_group_and_nobody_gets_what_another_claims(problem):
    group = problem.group
    first = cooperative_sticky_strategy(group)
    assert violations(group, first) == ()
    for partition, owner in enumerate(first.owner.tolist()):
        claims = (group.claim_partition == partition) & group.standing_claims()
        assert owner < 0 or set(group.claim_member[claims].tolist()) <= {owner}
    names = first.to_names(group)
    members = [replace(member, owned=names[member.id], generation=9) for member in problem.members]
    group = Group.build(problem.topics, members)
    second = cooperative_sticky_strategy(group)
    assert second.withheld is None
    kept = first.owner >= 0
    assert np.array_equal(second.owner[kept], first.owner[kept])
