import numpy as np
from hypothesis import given

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.moves import moves
from levelwind.assignors.problem.score import score
from levelwind.assignors.strategies.cooperative_sticky import cooperative_sticky_strategy
from levelwind.assignors.strategies.lag import lag_strategy
from levelwind_testing.groups.random_groups import problems


def test_what_changes_hands_is_first_revoked_and_then_assigned():
    group = Group.build({"t": Topic(partitions=4)}, [Member(id=name, topics="*") for name in "abc"])
    before = Assignment.from_names(group, {"a": {"t": [0, 1]}, "b": {"t": [2]}})
    after = Assignment.from_names(group, {"a": {"t": [0]}, "b": {"t": [2]}, "c": {"t": [1, 3]}})
    change = moves(before, after)
    assert change.partition.tolist() == [1, 3]
    assert change.revoked(group) == {"a": {"t": [1]}}
    assert change.assigned(group) == {"c": {"t": [1, 3]}}


def test_what_is_withheld_moves_too():
    members = [
        Member(id="a", topics="*", owned={"t": [0, 1]}, generation=1),
        Member(id="b", topics="*"),
    ]
    group = Group.build({"t": Topic(partitions=2)}, members)
    assert moves(Assignment.held(group), cooperative_sticky_strategy(group)).assigned(group) == {
        "b": {"t": [1]}
    }


def test_what_somebody_waited_for_is_given_up_by_who_has_it_still():
    group = Group.build({"t": Topic(partitions=1)}, [Member(id=name, topics="*") for name in "abc"])
    before = Assignment(np.array([0], dtype=np.int32), withheld=np.array([1], dtype=np.int32))
    change = moves(before, Assignment(np.array([2], dtype=np.int32)))
    assert change.revoked(group) == {"a": {"t": [0]}}
    assert change.assigned(group) == {"c": {"t": [0]}}


@given(problem=problems())
def test_carried_out_they_lead_from_the_one_to_the_other(problem):
    group = problem.group
    before, after = Assignment.held(group), lag_strategy(group)
    change = moves(before, after)
    owner = before.owner.copy()
    owner[change.partition[change.source >= 0]] = -1
    assert (owner[change.partition] == -1).all()
    owner[change.partition] = change.target
    assert np.array_equal(owner, after.owner)
    assert np.count_nonzero(change.source >= 0) == score(group, after).moved
