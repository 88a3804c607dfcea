import numpy as np
import pytest
from hypothesis import given

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind_testing.groups.random_groups import problems

TOPICS = {"t": Topic(partitions=2), "u": Topic(partitions=1)}


def held(*members):
    group = Group.build(TOPICS, members)
    return Assignment.held(group).to_names(group)


def test_every_member_is_named_also_without_partitions():
    group = Group.build(TOPICS, [Member(id=name, topics="*") for name in "ab"])
    names = Assignment(np.array([1, -1, 1], dtype=np.int32)).to_names(group)
    assert names == {"a": {}, "b": {"t": [0], "u": [0]}}


def test_what_is_withheld_is_part_of_the_target():
    group = Group.build(TOPICS, [Member(id=name, topics="*") for name in "ab"])
    assignment = Assignment(
        np.array([0, -1, -1], dtype=np.int32), np.array([-1, 1, -1], dtype=np.int32)
    )
    assert assignment.target.tolist() == [0, 1, -1]
    assert assignment.withheld_names(group) == {"b": {"t": [1]}}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"x": {}}, "member 'x': not in the group"),
        ({"a": {"x": [0]}}, "member 'a': topic 'x' is not in the group"),
        ({"a": {"t": [2]}}, "member 'a': 't' has no partition 2"),
        ({"a": {"t": [-1]}}, "member 'a': 't' has no partition -1"),
        ({"a": {"t": [0]}, "b": {"t": [0]}}, "member 'b': partition 0 of 't' is given twice"),
    ],
)
def test_wrong_names_are_told(names, message):
    group = Group.build(TOPICS, [Member(id=name, topics="*") for name in "ab"])
    with pytest.raises(ProblemError, match=message):
        Assignment.from_names(group, names)


def test_a_stale_claim_loses():
    old = Member(id="a", topics="*", owned={"t": [0, 1]}, generation=4)
    new = Member(id="b", topics="*", owned={"t": [0]}, generation=5)
    assert held(old, new) == {"a": {"t": [1]}, "b": {"t": [0]}}


def test_a_double_claim_of_the_newest_generation_is_nobodys():
    twins = [Member(id=name, topics="*", owned={"t": [0]}, generation=5) for name in "ab"]
    stale = Member(id="c", topics="*", owned={"t": [0]}, generation=4)
    assert held(*twins, stale) == {"a": {}, "b": {}, "c": {}}


def test_a_double_claim_of_a_stale_generation_does_not_hurt_the_newest():
    twins = [Member(id=name, topics="*", owned={"t": [0]}, generation=4) for name in "ab"]
    newest = Member(id="c", topics="*", owned={"t": [0]}, generation=5)
    assert held(*twins, newest) == {"a": {}, "b": {}, "c": {"t": [0]}}


def test_a_claim_without_a_subscription_loses_to_a_readers_whatever_its_generation():
    left = Member(id="a", topics=["u"], owned={"t": [0, 1]}, generation=6)
    reader = Member(id="b", topics=["t"], owned={"t": [0]}, generation=5)
    assert held(left, reader) == {"a": {"t": [1]}, "b": {"t": [0]}}


@given(problem=problems())
def test_held_is_the_rule_by_the_letter(problem):
    group = problem.group
    expected = {}
    for topic, about in problem.topics.items():
        for partition in range(about.partitions):
            claims = [m for m in problem.members if partition in (m.owned or {}).get(topic, ())]
            claims = [m for m in claims if topic in m.topics] or claims
            newest = max((m.generation for m in claims), default=0)
            claims = [m.id for m in claims if m.generation == newest]
            if len(claims) == 1:
                expected.setdefault(claims[0], {}).setdefault(topic, []).append(partition)
    names = Assignment.held(group).to_names(group)
    assert {member: topics for member, topics in names.items() if topics} == expected
