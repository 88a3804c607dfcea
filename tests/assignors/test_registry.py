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
from levelwind_testing.groups.random_groups import ProblemShape, problems


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


def with_claims(problem, claims_of):
    """The same problem, with what `claims_of` makes of each member's claims."""
    return problem._replace(
        members=[
            member if member.owned is None else replace(member, owned=claims_of(member))
            for member in problem.members
        ]
    )


def claimed_by_a_reader(problem):
    return {
        (topic, partition)
        for member in problem.members
        for topic, partitions in (member.owned or {}).items()
        if topic in member.topics
        for partition in partitions
    }


def assert_same_answer(name, problem, other):
    answer, same = STRATEGIES[name](problem.group), STRATEGIES[name](other.group)
    assert answer.owner.tolist() == same.owner.tolist()
    assert answer.target.tolist() == same.target.tolist()


@pytest.mark.parametrize("name", STRATEGIES)
@given(problem=problems(ProblemShape(equal=False, missing=False)))
def test_a_claim_by_a_member_that_does_not_read_the_topic_takes_nothing_from_a_reader(
    name, problem
):
    """Whatever its generation; alone it counts, since the member must give the partition up."""
    taken = claimed_by_a_reader(problem)

    def of_nobody_else(member):
        return {
            topic: [n for n in partitions if topic in member.topics or (topic, n) not in taken]
            for topic, partitions in member.owned.items()
        }

    assert_same_answer(name, problem, with_claims(problem, of_nobody_else))


@pytest.mark.parametrize("name", STRATEGIES)
@given(problem=problems(ProblemShape(missing=False)))
def test_a_claim_of_a_partition_that_no_longer_exists_changes_nothing(name, problem):
    def with_gone(member):
        beyond = {topic: [*member.owned.get(topic, ()), 9, 2**40] for topic in problem.topics}
        return {**member.owned, **beyond, "gone": [0]}

    assert_same_answer(name, problem, with_claims(problem, with_gone))


@pytest.mark.parametrize("name", STRATEGIES)
@given(problem=problems(ProblemShape(equal=True, missing=False)))
def test_what_two_readers_claim_at_once_is_planned_as_nobodys(name, problem):
    """Each partition that one of them claims is claimed by both, in one generation."""
    topics = problem.members[0].topics
    everything = {topic: list(range(problem.topics[topic].partitions)) for topic in topics}
    twins = [
        replace(member, owned=everything if number < 2 else {}, generation=7)
        for number, member in enumerate(problem.members)
    ]
    unowned = [replace(member, owned={}) for member in twins]
    if len(twins) > 1:
        both = STRATEGIES[name](problem._replace(members=twins).group)
        neither = STRATEGIES[name](problem._replace(members=unowned).group)
        assert both.target.tolist() == neither.target.tolist()


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
