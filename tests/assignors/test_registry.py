"""Invariants of every strategy, over random groups."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import ProblemError, Topic
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.registry import STRATEGIES, strategy_named
from levelwind_testing.groups.random_groups import problems


@pytest.mark.parametrize("name", STRATEGIES)
@given(problem=problems())
def test_every_read_partition_has_one_owner_that_reads_it(name, problem):
    assert violations(problem.group, STRATEGIES[name](problem.group)) == ()


@pytest.mark.parametrize("name", STRATEGIES)
@given(problem=problems(), seed=st.integers(0, 2**32))
def test_the_order_of_the_input_does_not_matter(name, problem, seed):
    shuffle = Random(seed)
    topics = dict(shuffle.sample(list(problem.topics.items()), len(problem.topics)))
    topics = {
        name: Topic(
            partitions=topic.partitions,
            lags=topic.lags,
            replica_racks=topic.replica_racks
            and [shuffle.sample(racks, len(racks)) for racks in topic.replica_racks],
        )
        for name, topic in topics.items()
    }
    group, other = (
        problem.group,
        Group.build(topics, shuffle.sample(problem.members, len(problem.members))),
    )
    strategy = STRATEGIES[name]
    assert strategy(group).to_names(group) == strategy(other).to_names(other)
    assert strategy(group).owner.tolist() == strategy(group).owner.tolist()


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_empty_group_and_a_group_without_topics_have_an_answer(name):
    empty = Group.build({"t": Topic(partitions=2)}, [])
    assert STRATEGIES[name](empty).owner.tolist() == [-1, -1]
    nothing = Group.build({}, [])
    assert STRATEGIES[name](nothing).owner.tolist() == []


STICKY = ["cooperative-sticky", "sticky", "uniform"]


def with_claims_of(problem, names, generation=9):
    """The same problem, with every member claiming its partitions of a plan."""
    members = [
        replace(member, owned=names[member.id], generation=generation) for member in problem.members
    ]
    return problem._replace(members=members)


@pytest.mark.parametrize("name", STICKY)
@given(problem=problems())
def test_nothing_moves_when_nothing_changed(name, problem):
    target = STRATEGIES[name](problem.group).target
    names = Assignment(target).to_names(problem.group)
    again = STRATEGIES[name](with_claims_of(problem, names).group)
    assert again.withheld is None
    assert again.owner.tolist() == target.tolist()


@given(problem=problems())
def test_names_and_columns_agree(problem):
    group = problem.group
    for strategy in STRATEGIES.values():
        assignment = strategy(group)
        names = assignment.to_names(group)
        assert sorted(names) == sorted(member.id for member in problem.members)
        assert np.array_equal(Assignment.from_names(group, names).owner, assignment.owner)


def test_an_unknown_strategy_names_the_nearest():
    with pytest.raises(ProblemError, match="'rangee' is unknown; the nearest is 'range'"):
        strategy_named("rangee")
    with pytest.raises(ProblemError, match="unknown"):
        strategy_named(5)
