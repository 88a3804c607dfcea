"""Topics spread over members by what moves anyway."""

import numpy as np
import pytest
from hypothesis import given, settings

from levelwind.assignors.optimal import optimal_strategy
from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.construct import construct
from levelwind.assignors.optimal.search.spread_topics import spread_topics
from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.registry import STRATEGIES
from levelwind_testing.examples import examples
from levelwind_testing.groups.random_groups import problems


def by_topic(group, owner):
    """Partitions of each topic (row) that each member has."""
    members = len(group.members)
    cell = group.partition_topic[owner >= 0] * members + owner[owner >= 0]
    return np.bincount(cell, minlength=len(group.topics) * members).reshape(-1, members)


def joined(strategy, lags=None):
    """Twenty topics of twelve partitions on eight members, and one that joins."""
    topics = {f"t{n:02}": Topic(partitions=12, lags=lags) for n in range(20)}
    members = [Member(id=f"m{n}", topics="*") for n in range(8)]
    group = Group.build(topics, members)
    owned = STRATEGIES[strategy](group).to_names(group)
    members = [
        Member(id=member.id, topics="*", owned=owned[member.id], generation=1) for member in members
    ]
    return Group.build(topics, [*members, Member(id="m8", topics="*")])


@pytest.mark.parametrize("strategy", ["optimal", "sticky"])
def test_librdkafka_4044_a_member_that_joins_gets_some_of_each_topic(strategy):
    group = joined(strategy)
    owner = optimal_strategy(group).owner
    number = by_topic(group, owner)
    # Not all twelve of two topics: 26 partitions of twenty topics are one or two of each.
    assert sorted(number[:, 8]) == [1] * 14 + [2] * 6
    assert np.ptp(number, axis=1).max() <= 2
    assert score(group, Assignment(owner)).moved == 26


def test_with_lag_a_member_that_joins_gets_some_of_each_topic_too():
    group = joined("optimal", lags=[5_000] * 12)
    number = by_topic(group, optimal_strategy(group).owner)
    assert number[:, 8].max() <= 2
    assert np.ptp(number, axis=1).max() <= 3


@given(random_problem=problems())
@settings(max_examples=examples(60))
def test_it_costs_nothing_in_counts_load_racks_and_moves(random_problem):
    group = random_problem.group
    model = build_model(group, Options())
    before = construct(model, model.keepable_owner, WorkBudget.of_seconds(1))
    limit = model.drain_time(before)
    after = spread_topics(model, before, limit * 1.1)
    assert model.is_feasible(after)
    assert model.member_count(after).tolist() == model.member_count(before).tolist()
    assert np.count_nonzero(model.moved(after)) <= np.count_nonzero(model.moved(before))
    assert model.total_cross_rack_cost(after) <= model.total_cross_rack_cost(before)
    assert (model.drain_time(after) <= limit * 1.1 * (1 + 1e-9)).all()
    spread = [(by_topic(group, owner) ** 2).sum() for owner in (before, after)]
    assert spread[1] <= spread[0]
    stays = before == model.current_owner
    if stays.all() or len(group.topics) < 2:
        assert after.tolist() == before.tolist()


def test_a_heavy_partition_is_not_exchanged_for_a_light_one_beyond_the_limit():
    topics = {name: Topic(partitions=2, lags=lags) for name, lags in [("s", [9, 9]), ("t", [1, 1])]}
    members = [Member(id=name, topics="*", speed=1.0) for name in "ab"]
    model = build_model(Group.build(topics, members), Options())
    together = np.array([0, 0, 1, 1], dtype=np.int32)
    kept = spread_topics(model, together, np.array([18.0, 9.0]))
    assert kept.tolist() == together.tolist()
    spread = spread_topics(model, together, np.array([18.0, 10.0]))
    assert sorted(spread[:2].tolist()) == sorted(spread[2:].tolist()) == [0, 1]
