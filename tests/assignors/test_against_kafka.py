"""The same groups through Kafka's own classes.

A fixed seed finds the same every time; a fresh one, which is printed, finds what nobody thought of.
"""

from dataclasses import replace
from random import Random
from secrets import randbelow

import numpy as np
import pytest
from py4j.protocol import Py4JJavaError
from random_groups import Shape, seeded

from assignors.assignment import Assignment
from assignors.group import ProblemError
from assignors.invariants import violations
from assignors.near import nonlocal_at
from assignors.score import counts, score
from assignors.strategies import STRATEGIES

pytestmark = pytest.mark.integration
GROUPS = 1000


@pytest.fixture(scope="module", params=["fixed", "fresh"])
def seeds(request):
    first = 0 if request.param == "fixed" else randbelow(2**40)
    terminal = request.config.pluginmanager.getplugin("terminalreporter")
    terminal.write_line(f" {request.param} seeds from {first}")
    return range(first, first + GROUPS)


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_it_is_exactly_kafkas_answer(kafka, seeds, name):
    for seed in seeds:
        problem = seeded(seed, Shape(lags=False))
        ours = STRATEGIES[name](problem.group).to_names(problem.group)
        assert ours == kafka.assign(name, problem.topics, problem.members), f"seed {seed}: {problem}"


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_from_scratch_is_exactly_kafkas_answer_on_equal_subscriptions(kafka, seeds, name):
    for seed in seeds:
        problem = seeded(seed, Shape(equal=True, claims=False, lags=False, missing=False))
        ours = STRATEGIES[name](problem.group).to_names(problem.group)
        assert ours == kafka.assign(name, problem.topics, problem.members), f"seed {seed}: {problem}"


@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "unequal subscriptions"])
def test_sticky_is_no_worse_than_kafka(kafka, seeds, equal):
    """Balance never is. Where it is equal, not both moves and far partitions can be: fewer moves may cost locality.

    Left out of the comparison is where Kafka's own answer is wrong: a member of an older generation that no longer
    subscribes gets its partitions back, an empty subscription that is seen first counts as everybody's, and an index
    beyond a topic made anew is kept or throws. Ours must be valid there too.
    """
    dominated, compared, ours_in_all, kafkas_in_all = [], 0, np.zeros(2, dtype=int), np.zeros(2, dtype=int)
    for seed in seeds:
        problem = seeded(seed, Shape(equal=equal, lags=False, missing=False))
        group = problem.group
        ours = STRATEGIES["sticky"](group)
        assert violations(group, ours) == (), f"seed {seed}: {problem}"
        kafkas = valid(group, kafka, problem)
        if kafkas is None:
            continue
        compared += 1
        assert squares(group, ours) <= squares(group, kafkas), f"seed {seed}: {problem}"
        if squares(group, ours) == squares(group, kafkas):
            mine, theirs = moved_and_far(group, ours), moved_and_far(group, kafkas)
            ours_in_all += mine
            kafkas_in_all += theirs
            if (mine >= theirs).all() and (mine > theirs).any():
                dominated.append(seed)
    # A plan of ours that Kafka betters in one and that is better in nothing: greedy choices of either can be lucky.
    assert len(dominated) <= compared / 100, dominated
    assert (ours_in_all <= kafkas_in_all).all()


def test_server_range_is_exactly_the_coordinators_answer(coordinator, seeds):
    for seed in seeds:
        problem = seeded(seed, Shape(lags=False, claims=False))
        ours = STRATEGIES["server-range"](problem.group).to_names(problem.group)
        theirs = coordinator.assign("server-range", problem.topics, problem.members)
        assert ours == theirs, f"seed {seed}: {problem}"


def test_uniform_is_no_worse_than_the_coordinators(coordinator, seeds):
    """After some members of a balanced group went and others came; the coordinator is blind to racks."""
    dominated, compared = [], 0
    for seed in seeds:
        problem = changed(seeded(seed, Shape(lags=False, claims=False, missing=False)), Random(seed))
        group = problem.group
        ours = STRATEGIES["uniform"](group)
        assert violations(group, ours) == (), f"seed {seed}: {problem}"
        names = coordinator.assign("uniform", problem.topics, problem.members)
        theirs = Assignment.from_names(group, names)
        if violations(group, theirs):
            continue
        compared += 1
        assert squares(group, ours) <= squares(group, theirs), f"seed {seed}: {problem}"
        if squares(group, ours) == squares(group, theirs):
            mine, others = moved_and_far(group, ours), moved_and_far(group, theirs)
            if (mine >= others).all() and (mine > others).any():
                dominated.append(seed)
    assert compared > len(seeds) / 2
    assert len(dominated) <= compared / 100, dominated


def changed(problem, draw):
    """The problem with a plan that was made when another part of its members was there."""
    before = [member for member in problem.members if draw.random() < 0.8]
    names = STRATEGIES["uniform"](problem._replace(members=before).group).to_names(
        problem._replace(members=before).group
    )
    now = [member for member in problem.members if draw.random() < 0.8] or problem.members
    return problem._replace(
        members=[
            replace(member, owned=names.get(member.id), generation=1 if member.id in names else -1)
            for member in now
        ]
    )


def valid(group, kafka, problem):
    try:
        names = kafka.assign("sticky", problem.topics, problem.members)
        assignment = Assignment.from_names(group, names)
    except (Py4JJavaError, ProblemError):
        return None
    return None if violations(group, assignment) else assignment


def squares(group, assignment):
    return int((counts(group, assignment.owner) ** 2).sum())


def moved_and_far(group, assignment):
    return np.array([score(group, assignment).moved, np.count_nonzero(nonlocal_at(group, assignment.owner))])
