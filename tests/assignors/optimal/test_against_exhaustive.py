"""Small random groups, equal and unequal, with racks, capacities, claims, rates and bytes, against every plan there is."""

from collections import Counter
from dataclasses import replace
from math import ceil
from random import Random

import pytest

from assignors.optimal import optimal_plan
from assignors.optimal.bounds import growth_bound, load_bound, moves_bound
from assignors.optimal.model.model import terms
from assignors.optimal.model.plan_options import Options
from assignors.optimal.search.class_flow import crossing_bound
from assignors.problem.assignment import Assignment
from assignors.problem.group import Group
from assignors.problem.validity import violations
from levelwind_testing.groups.exhaustive import (
    best,
    value,
)
from levelwind_testing.groups.random_groups import (
    ProblemShape,
    seeded_problem,
)

SMALL = ProblemShape(topics=3, partitions=4, members=4)
TOLERANCE = 0.02


def grouped(seed):
    """A random group with rates and bytes in some of its topics."""
    problem, draw = seeded_problem(seed, SMALL), Random(seed)
    topics = {
        name: replace(
            topic,
            rates=[draw.randrange(50) / 2 for _ in range(topic.partitions)]
            if draw.randrange(4) == 0
            else None,
            bytes=[draw.randrange(1, 9) for _ in range(topic.partitions)]
            if draw.randrange(4) == 0
            else None,
        )
        for name, topic in problem.topics.items()
    }
    return Group.build(topics, problem.members)


def checked(seed):
    """Hold one group's plan against the oracle; the gap in load, relative to the best there is."""
    group = grouped(seed)
    plan = optimal_plan(group)
    assert violations(group, plan.assignment) == ()
    ours, oracle = value(group, plan.assignment.owner.tolist()), best(group)
    told = plan.certificate
    assert ours.counts == oracle.counts, seed
    assert ours.drain <= oracle.drain * (1 + TOLERANCE) * (1 + 1e-12), seed
    assert ours.crossing <= oracle.crossing, seed
    assert ours.moves <= oracle.moves, seed
    # The certificate tells the plan's values, and its bounds are never above the best.
    values = (told.counts.value, told.load.value, told.crossing.value, told.moves.value)
    assert values == (max(ours.counts, default=0), ours.drain, ours.crossing, ours.moves), seed
    assert told.counts.bound <= max(oracle.counts, default=0), seed
    assert told.load.bound <= oracle.drain * (1 + 1e-12) or told.load.bound <= ours.drain, seed
    # Nor are those that larger groups rest on.
    stated = terms(group, Options())
    assert load_bound(stated).value <= oracle.drain * (1 + 1e-12), seed
    assert crossing_bound(stated) <= oracle.crossing, seed
    assert moves_bound(stated) <= oracle.moves, seed
    assert growth_bound(stated, oracle.drain * (1 + TOLERANCE)) <= oracle.moves, seed
    names = plan.assignment.to_names(group)
    assert Assignment.from_names(group, names).owner.tolist() == plan.assignment.owner.tolist()
    return ours.drain / oracle.drain - 1 if oracle.drain else 0.0


def spread(gaps):
    steps = Counter(max(ceil(gap * 200 - 1e-6), 0) for gap in gaps)
    return ", ".join(f"up to {step / 2} %: {number}" for step, number in sorted(steps.items()))


def test_small_groups_are_planned_as_well_as_can_be():
    for seed in range(150):
        checked(seed)


@pytest.mark.integration
def test_ten_thousand_small_groups_are_planned_as_well_as_can_be(record_property):
    gaps = [checked(seed) for seed in range(10_000)]
    record_property("gap in load", spread(gaps))
    print(f"gap in load over {len(gaps)} groups: {spread(gaps)}")
    assert max(gaps) <= TOLERANCE * (1 + 1e-12)
