"""The same groups through Kafka's own classes.

A fixed seed finds the same every time; a fresh one, which is printed, finds what nobody thought of.
"""

from dataclasses import dataclass, replace
from random import Random
from secrets import randbelow
from typing import NamedTuple

import numpy as np
import pytest
from py4j.protocol import Py4JJavaError

from assignors.problem.assignment import Assignment
from assignors.problem.inputs import ProblemError
from assignors.problem.locality import rack_remote_at
from assignors.problem.score import (
    counts,
    score,
)
from assignors.problem.validity import violations
from assignors.registry import STRATEGIES
from levelwind_testing.groups.random_groups import (
    ProblemShape,
    seeded_problem,
)

pytestmark = pytest.mark.integration
GROUPS = 1000


@pytest.fixture(scope="module", params=["fixed", "fresh"])
def seeds(request, told):
    first = 0 if request.param == "fixed" else randbelow(2**40)
    told(f"{request.param} seeds from {first}")
    return range(first, first + GROUPS)


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_it_is_exactly_kafkas_answer(kafka, seeds, name):
    for seed in seeds:
        problem = seeded_problem(seed, ProblemShape(lags=False))
        ours = STRATEGIES[name](problem.group).to_names(problem.group)
        assert ours == kafka.assign(name, problem.topics, problem.members), (
            f"seed {seed}: {problem}"
        )


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_from_scratch_is_exactly_kafkas_answer_on_equal_subscriptions(kafka, seeds, name):
    for seed in seeds:
        problem = seeded_problem(
            seed, ProblemShape(equal=True, claims=False, lags=False, missing=False)
        )
        ours = STRATEGIES[name](problem.group).to_names(problem.group)
        assert ours == kafka.assign(name, problem.topics, problem.members), (
            f"seed {seed}: {problem}"
        )


@pytest.mark.parametrize(
    "equal", [True, False], ids=["equal subscriptions", "unequal subscriptions"]
)
@pytest.mark.parametrize("claims", [True, False], ids=["with claims", "from scratch"])
def test_sticky_is_nowhere_worse_than_kafka(kafka, seeds, equal, claims, told):
    """Balance, then far partitions, then moves: each at most Kafka's where the ones before are equal.

    Left out of the comparison is where Kafka's own answer is wrong: a member of an older generation that no longer
    subscribes gets its partitions back, an empty subscription that is seen first counts as everybody's, and an index
    beyond a topic made anew is kept or throws. Ours must be valid there too.
    """
    tally = Tally()
    for seed in seeds:
        problem = seeded_problem(
            seed, ProblemShape(equal=equal, claims=claims, lags=False, missing=False)
        )
        group = problem.group
        ours = STRATEGIES["sticky"](group)
        assert violations(group, ours) == (), f"seed {seed}: {problem}"
        kafkas = valid(group, kafka, problem)
        if kafkas is not None:
            mine, theirs = worth(group, ours), worth(group, kafkas)
            assert mine <= theirs, f"seed {seed}: {problem}"
            tally.count(mine, theirs)
    assert tally.compared > len(seeds) / 2
    told(
        f"sticky, {'equal' if equal else 'unequal'} subscriptions, {'with claims' if claims else 'from scratch'}: {tally}"
    )


def test_server_range_is_exactly_the_coordinators_answer(coordinator, seeds):
    for seed in seeds:
        problem = seeded_problem(seed, ProblemShape(lags=False, claims=False))
        ours = STRATEGIES["server-range"](problem.group).to_names(problem.group)
        theirs = coordinator.assign("server-range", problem.topics, problem.members)
        assert ours == theirs, f"seed {seed}: {problem}"


def test_uniform_is_nowhere_worse_than_the_coordinators(coordinator, seeds, told):
    """After some members of a balanced group went and others came; the coordinator is blind to racks."""
    tally = Tally()
    for seed in seeds:
        problem = changed(
            seeded_problem(seed, ProblemShape(lags=False, claims=False, missing=False)),
            Random(seed),
        )
        group = problem.group
        ours = STRATEGIES["uniform"](group)
        assert violations(group, ours) == (), f"seed {seed}: {problem}"
        names = coordinator.assign("uniform", problem.topics, problem.members)
        theirs = Assignment.from_names(group, names)
        if not violations(group, theirs):
            assert worth(group, ours) <= worth(group, theirs), f"seed {seed}: {problem}"
            tally.count(worth(group, ours), worth(group, theirs))
    assert tally.compared > len(seeds) / 2
    told(f"uniform: {tally}")


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


class Worth(NamedTuple):
    """Less is better, and the first figures count first."""

    squares: int  # of the members' numbers of partitions, summed
    far: int
    moved: int


def worth(group, assignment):
    return Worth(
        squares=int((counts(group, assignment.owner) ** 2).sum()),
        far=int(np.count_nonzero(rack_remote_at(group, assignment.owner))),
        moved=score(group, assignment).moved,
    )


@dataclass
class Tally:
    """How often our plan was better than Kafka's, and in what, for whoever reads the run's summary."""

    compared: int = 0
    evener: int = 0
    nearer_for_more_moves: int = 0
    nearer: int = 0
    fewer_moves: int = 0

    def __str__(self):
        return (
            f"{self.compared} compared; ours evener {self.evener}, nearer {self.nearer}, nearer for more moves"
            f" {self.nearer_for_more_moves}, fewer moves {self.fewer_moves}"
        )

    def count(self, mine, theirs):
        self.compared += 1
        self.evener += mine.squares < theirs.squares
        if mine.squares == theirs.squares:
            nearer = mine.far < theirs.far
            self.nearer_for_more_moves += nearer and mine.moved > theirs.moved
            self.nearer += nearer and mine.moved <= theirs.moved
            self.fewer_moves += not nearer and mine.moved < theirs.moved
