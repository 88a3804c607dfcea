"""The same groups through Kafka's own classes.

The fixed seed repeats the same groups in every run; a further one, which `make rare` draws and
prints, tries new ones.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from py4j.protocol import Py4JJavaError

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, ProblemError, Topic
from levelwind.assignors.problem.locality import rack_remote_at
from levelwind.assignors.problem.score import counts, score
from levelwind.assignors.problem.validity import violations
from levelwind.assignors.registry import STRATEGIES
from levelwind_testing.drawn_seeds import fixed_and_fresh_seeds
from levelwind_testing.groups.random_groups import ProblemShape, seeded_problem

pytestmark = pytest.mark.integration
seeds = fixed_and_fresh_seeds(fixed=500, fresh=1500)


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_the_plan_is_exactly_kafkas_answer(kafka, seeds, name):
    for seed in seeds:
        problem = seeded_problem(seed, ProblemShape(lags=False))
        our_plan = STRATEGIES[name](problem.group).to_names(problem.group)
        assert our_plan == kafka.assign(name, problem.topics, problem.members), (
            f"seed {seed}: {problem}"
        )


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_from_scratch_is_exactly_kafkas_answer_on_equal_subscriptions(kafka, seeds, name):
    for seed in seeds:
        problem = seeded_problem(
            seed, ProblemShape(equal=True, claims=False, lags=False, missing=False)
        )
        our_plan = STRATEGIES[name](problem.group).to_names(problem.group)
        assert our_plan == kafka.assign(name, problem.topics, problem.members), (
            f"seed {seed}: {problem}"
        )


@pytest.mark.parametrize(
    "equal", [True, False], ids=["equal subscriptions", "unequal subscriptions"]
)
@pytest.mark.parametrize("claims", [True, False], ids=["with claims", "from scratch"])
def test_sticky_is_nowhere_worse_than_kafka(kafka, seeds, equal, claims, note_in_summary):
    """Balance, remote partitions, moves: each at most Kafka's if those before it are equal.

    The comparison leaves out groups for which Kafka's own answer is wrong: a member of an older
    generation that no longer subscribes gets its partitions back, an empty subscription that comes
    first counts as everybody's, and a partition number beyond a recreated topic is kept or throws.
    Our answer must be valid for these groups too.
    """
    tally = Tally()
    for seed in seeds:
        problem = seeded_problem(
            seed, ProblemShape(equal=equal, claims=claims, lags=False, missing=False)
        )
        group = problem.group
        our_plan = STRATEGIES["sticky"](group)
        assert violations(group, our_plan) == (), f"seed {seed}: {problem}"
        kafka_plan = valid_kafka_answer(group, kafka, problem)
        if kafka_plan is not None:
            our_worth, kafka_worth = worth(group, our_plan), worth(group, kafka_plan)
            assert our_worth <= kafka_worth, f"seed {seed}: {problem}"
            tally.count(our_worth, kafka_worth)
    assert tally.compared > len(seeds) / 2
    note_in_summary(
        f"sticky, {'equal' if equal else 'unequal'} subscriptions, "
        f"{'with claims' if claims else 'from scratch'}: {tally}"
    )


def test_an_owner_keeps_what_a_member_without_the_subscription_claims_as_in_kafka(kafka):
    """Alone, such a claim withholds the partition for a round; beside an owner it does nothing."""
    topics = {"t": Topic(partitions=2), "u": Topic(partitions=1)}
    for generation in (4, 5, 6):
        for claimed in ([0, 1], [1]):
            members = [
                Member(id="a", topics=["u"], owned={"t": [0], "u": [0]}, generation=5),
                Member(id="b", topics=["t"], owned={"t": claimed}, generation=generation),
            ]
            group = Group.build(topics, members)
            for name in ("sticky", "cooperative-sticky"):
                ours = STRATEGIES[name](group).to_names(group)
                assert ours == kafka.assign(name, topics, members), (name, generation, claimed)


def test_server_range_is_exactly_the_coordinators_answer(coordinator, seeds):
    for seed in seeds:
        problem = seeded_problem(seed, ProblemShape(lags=False, claims=False))
        our_plan = STRATEGIES["server-range"](problem.group).to_names(problem.group)
        expected = coordinator.assign("server-range", problem.topics, problem.members)
        assert our_plan == expected, f"seed {seed}: {problem}"


def test_uniform_is_nowhere_worse_than_the_coordinators(coordinator, seeds, note_in_summary):
    """Some members of a balanced group left and others joined; the coordinator ignores racks."""
    tally = Tally()
    for seed in seeds:
        problem = after_member_changes(
            seeded_problem(seed, ProblemShape(lags=False, claims=False, missing=False)),
            Random(seed),
        )
        group = problem.group
        our_plan = STRATEGIES["uniform"](group)
        assert violations(group, our_plan) == (), f"seed {seed}: {problem}"
        names = coordinator.assign("uniform", problem.topics, problem.members)
        coordinator_plan = Assignment.from_names(group, names)
        if not violations(group, coordinator_plan):
            assert worth(group, our_plan) <= worth(group, coordinator_plan), (
                f"seed {seed}: {problem}"
            )
            tally.count(worth(group, our_plan), worth(group, coordinator_plan))
    assert tally.compared > len(seeds) / 2
    note_in_summary(f"uniform: {tally}")


def after_member_changes(problem, draw):
    """The problem with claims from a plan for another part of its members."""
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


def valid_kafka_answer(group, kafka, problem):
    try:
        names = kafka.assign("sticky", problem.topics, problem.members)
        assignment = Assignment.from_names(group, names)
    except (Py4JJavaError, ProblemError):
        return None
    return None if violations(group, assignment) else assignment


class Worth(NamedTuple):
    """Less is better, and the first figures count first."""

    squares: int  # of the members' numbers of partitions, summed
    remote: int  # partitions without a replica in their owner's rack
    moved: int


def worth(group, assignment):
    return Worth(
        squares=int((counts(group, assignment.owner) ** 2).sum()),
        remote=int(np.count_nonzero(rack_remote_at(group, assignment.owner))),
        moved=score(group, assignment).moved,
    )


@dataclass
class Tally:
    """Count of our plans that are better than Kafka's, by respect, for the summary of the run."""

    compared: int = 0
    evener: int = 0
    more_local_for_more_moves: int = 0
    more_local: int = 0
    fewer_moves: int = 0

    def __str__(self):
        return (
            f"{self.compared} compared; ours evener {self.evener}, more local {self.more_local}, "
            f"more local for more moves {self.more_local_for_more_moves}, "
            f"fewer moves {self.fewer_moves}"
        )

    def count(self, our_worth, kafka_worth):
        self.compared += 1
        self.evener += our_worth.squares < kafka_worth.squares
        if our_worth.squares == kafka_worth.squares:
            more_local = our_worth.remote < kafka_worth.remote
            self.more_local_for_more_moves += more_local and our_worth.moved > kafka_worth.moved
            self.more_local += more_local and our_worth.moved <= kafka_worth.moved
            self.fewer_moves += not more_local and our_worth.moved < kafka_worth.moved
