"""Small random groups against every plan that exists."""

from collections import Counter
from dataclasses import replace
from math import ceil
from random import Random

import pytest

from assignors.optimal import optimal_plan
from assignors.optimal.bounds import count_moves_bound, load_bound, load_moves_bound
from assignors.optimal.model.model import build_model
from assignors.optimal.model.plan_options import Options
from assignors.optimal.search.class_flow import cross_rack_bound
from assignors.problem.assignment import Assignment
from assignors.problem.group import Group
from assignors.problem.validity import violations
from levelwind_testing.groups.exhaustive import best_values, plan_values
from levelwind_testing.groups.random_groups import ProblemShape, seeded_problem

SMALL = ProblemShape(topics=3, partitions=4, members=4)
TOLERANCE = 0.02


def random_group(seed):
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


def checked_gap(seed):
    """Hold one group's plan against the oracle; return the gap in load, relative to the best."""
    group = random_group(seed)
    plan = optimal_plan(group)
    assert violations(group, plan.assignment) == ()
    achieved, best = plan_values(group, plan.assignment.owner.tolist()), best_values(group)
    certificate = plan.certificate
    assert achieved.counts == best.counts, seed
    assert achieved.drain_time <= best.drain_time * (1 + TOLERANCE) * (1 + 1e-12), seed
    assert achieved.cross_rack_cost <= best.cross_rack_cost, seed
    assert achieved.moves <= best.moves, seed
    # The certificate tells the plan's values, and its bounds are never above the best.
    values = (
        certificate.counts.value,
        certificate.load.value,
        certificate.cross_rack.value,
        certificate.moves.value,
    )
    assert values == (
        max(achieved.counts, default=0),
        achieved.drain_time,
        achieved.cross_rack_cost,
        achieved.moves,
    ), seed
    assert certificate.counts.bound <= max(best.counts, default=0), seed
    assert (
        certificate.load.bound <= best.drain_time * (1 + 1e-12)
        or certificate.load.bound <= achieved.drain_time
    ), seed
    # Nor are those that larger groups rest on.
    model = build_model(group, Options())
    assert load_bound(model).value <= best.drain_time * (1 + 1e-12), seed
    assert cross_rack_bound(model) <= best.cross_rack_cost, seed
    assert count_moves_bound(model) <= best.moves, seed
    assert load_moves_bound(model, best.drain_time * (1 + TOLERANCE)) <= best.moves, seed
    names = plan.assignment.to_names(group)
    assert Assignment.from_names(group, names).owner.tolist() == plan.assignment.owner.tolist()
    return achieved.drain_time / best.drain_time - 1 if best.drain_time else 0.0


def histogram(gaps):
    steps = Counter(max(ceil(gap * 200 - 1e-6), 0) for gap in gaps)
    return ", ".join(f"up to {step / 2} %: {number}" for step, number in sorted(steps.items()))


def test_small_groups_are_planned_as_well_as_can_be():
    for seed in range(150):
        checked_gap(seed)


@pytest.mark.integration
def test_ten_thousand_small_groups_are_planned_as_well_as_can_be(record_property):
    gaps = [checked_gap(seed) for seed in range(10_000)]
    record_property("gap in load", histogram(gaps))
    print(f"gap in load over {len(gaps)} groups: {histogram(gaps)}")
    assert max(gaps) <= TOLERANCE * (1 + 1e-12)
