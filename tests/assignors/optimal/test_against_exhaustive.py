"""Small random groups against every plan that exists."""

from collections import Counter
from dataclasses import replace
from math import ceil
from random import Random

import numpy as np
import pytest

from levelwind.assignors.optimal import optimal_plan
from levelwind.assignors.optimal.bounds import count_moves_bound, load_bound, load_moves_bound
from levelwind.assignors.optimal.model.model import build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.repair import target_limits
from levelwind.assignors.optimal.search.class_flow import cross_rack_bound
from levelwind.assignors.optimal.slack_search import choose_slack
from levelwind.assignors.optimal.within_limits import priced_limits
from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.validity import violations
from levelwind_testing.groups.exhaustive import (
    EveryPlan,
    best_values,
    connected_members,
    in_order_within,
    least_in_order,
    plan_values,
    rank_limits,
    works,
)
from levelwind_testing.groups.random_groups import ProblemShape, seeded_problem

SMALL = ProblemShape(topics=3, partitions=4, members=4)
TINY = ProblemShape(topics=2, partitions=4, members=4)
TOLERANCE = 0.02
HAIR = 1e-8
ROUNDING = 1 + 1e-9
ORDERED, EVEN = 200, 150
"""Seeds of the unit tests; those of the integration tests come after them."""


def random_group(seed, shape=SMALL):
    """A random group with rates and bytes in some of its topics, and speeds of some members."""
    problem, draw = seeded_problem(seed, shape), Random(seed)
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
    members = [
        replace(member, speed=float(draw.randrange(20, 600))) if draw.randrange(4) == 0 else member
        for member in problem.members
    ]
    return Group.build(topics, members)


def check_order(seed):
    """Hold one group's plan, and the bounds of larger groups, against every plan that exists.

    Counts may depart from the most even ones by the least slack that load needs, or twice that.
    """
    group, draw = random_group(seed, TINY), Random(seed)
    chosen = Options(count_slack=draw.choice((None, None, 1, 2)), load_floor=draw.choice((0, 0, 5)))
    plan = optimal_plan(group, count_slack=chosen.count_slack, load_floor=chosen.load_floor)
    assert violations(group, plan.assignment) == ()
    achieved, every = plan_values(group, plan.assignment.owner.tolist()), EveryPlan(group)
    model = build_model(group, chosen)
    largest = model.limits.largest_slack
    slacks = sorted({0, largest, *(2**n for n in range(8) if 2**n < largest)})
    possible = {s: every.within(*model.limits.of_slack(s)) for s in slacks if s}
    possible[0] = every.most_even()
    best = every.drain_time[possible[largest]].min()
    limit = max(best * (1 + TOLERANCE), chosen.load_floor)
    if (np.abs(every.drain_time - limit) < limit * 1e-9).any():
        return  # a plan at the very limit is within it or beyond it as the last digit rounds
    light = every.drain_time <= limit
    # Load: within its tolerance of the best within the bound, at the least slack that allows it.
    slack = next(s for s in slacks if (possible[s] & light).any())
    assert achieved.drain_time <= limit, seed
    # Racks: at least as good as the best at that slack.
    racks = every.cross_rack_cost[possible[slack] & light].min()
    assert achieved.cross_rack_cost <= racks * ROUNDING, seed
    # Moves: the fewest of those as good in racks, within the limits of a plan that keeps owners.
    choice = choose_slack(model, WorkBudget.of_seconds(1))
    assert choice.model.slack == slack, seed
    repaired = choice.repair_model
    joined = model.member_count(model.current_owner) == 0
    share = np.minimum(model.member_count(choice.target.owner), model.limits.even_min)
    assert np.all(choice.model.member_count(plan.assignment.owner)[joined] >= share[joined]), seed
    # Loads: the target is the most level of those as good in racks, and the plan within its limits.
    most_level = possible[slack] & light & (every.cross_rack_cost <= racks * ROUNDING)
    members = connected_members(group)
    level = level_enough(
        group, every.loads, most_level, choice.target.owner, members, limit, chosen.load_floor
    )
    if level is None:
        return
    loads = plan_loads(group, plan.assignment.owner)
    assert is_row(every.loads[level], loads), seed
    wide = every.within(repaired.min_count, repaired.max_count)
    if repaired.slack == 0:
        wide = possible[slack]
    wide &= level
    least_racks = every.cross_rack_cost[wide & light].min()
    best_racks = wide & light & (every.cross_rack_cost <= least_racks * ROUNDING)
    fewest = every.moves[best_racks].min()
    assert achieved.moves <= fewest, seed
    # Counts: the most even of those from scratch.
    if (Assignment.held(group).owner < 0).all():
        squares = sum(count * count for count in achieved.counts)
        assert squares == every.squares[best_racks].min(), seed
    # The certificate tells the plan's values, and no bound is above the best one.
    certificate = plan.certificate
    objectives = [objective.name for objective in certificate.objectives]
    assert objectives == ["load", "cross_rack", "wait", "moves", "counts"]
    assert certificate.load.value == pytest.approx(achieved.drain_time)
    assert certificate.cross_rack.value == achieved.cross_rack_cost
    assert certificate.moves.value == achieved.moves
    work = float(loads @ group.capacity)
    waited = float(loads**2 @ group.capacity) / (2 * work) if work else 0.0
    assert certificate.wait.value == pytest.approx(waited)
    assert certificate.wait.bound <= every.waits(group).min() * ROUNDING, seed
    assert certificate.load.bound <= best * ROUNDING, seed
    assert certificate.cross_rack.bound <= max(least_racks, 0), seed
    assert certificate.moves.bound <= max(fewest, achieved.moves), seed
    assert certificate.counts.bound <= every.count.max(axis=1, initial=0).min(), seed
    # Nor are those that larger groups rest on.
    widest = model.with_slack(largest)
    assert load_bound(widest).value <= best * ROUNDING, seed
    assert cross_rack_bound(repaired) <= least_racks, seed
    assert count_moves_bound(repaired) <= every.moves[wide].min(), seed
    assert load_moves_bound(repaired, limit) <= every.moves[wide & light].min(), seed


def level_enough(group, loads, among, target, components, largest, floor):
    """Hold the target against the most level plan of some; return the plans that are level enough.

    None where a plan at the very limit is within it or beyond it as the last digit rounds.
    """
    own, level = plan_loads(group, target), np.ones(len(loads), dtype=np.bool_)
    for members in components:
        order = sorted(members, key=lambda member: -own[member])
        in_order = own[order].tolist()
        assert in_order == pytest.approx(least_in_order(loads[among], members), rel=1e-9)
        capacities = group.capacity[order].tolist()
        limits = np.array(rank_limits(in_order, capacities, largest, TOLERANCE, floor))
        within = in_order_within(loads, members, limits * (1 - HAIR))
        if (in_order_within(loads, members, limits * (1 + HAIR)) != within).any():
            return None
        level &= within
    return level


def plan_loads(group, owner):
    """Seconds of each member under a plan."""
    work = np.bincount(owner[owner >= 0], np.array(works(group))[owner >= 0], len(group.members))
    return work / group.capacity


def is_row(rows, row):
    """Whether one of the rows is this one, but for its last digits."""
    return bool((np.abs(rows - row) <= 1e-9 * np.abs(row)).all(axis=1).any())


def drifted_group(seed):
    """A small group that owns what was planned for it, before lags drifted by up to half."""
    draw = Random(seed)
    partitions, names = draw.randrange(4, 11), [f"m{n}" for n in range(draw.randrange(2, 5))]
    lags = [draw.randrange(200, 3_000) for _ in range(partitions)]
    members = [Member(id=name, topics="*", speed=100.0) for name in names]
    group = Group.build({"t": Topic(partitions=partitions, lags=lags)}, members)
    owned = optimal_plan(group).assignment.to_names(group)
    lags = [round(lag * draw.uniform(0.5, 1.5)) for lag in lags]
    members = [replace(member, owned=owned[member.id], generation=1) for member in members]
    return Group.build({"t": Topic(partitions=partitions, lags=lags)}, members)


def check_price(seed):
    """Hold the plan of a group in which moves have a price against every plan that exists."""
    group, cost = drifted_group(seed), Random(seed).choice((0.1, 1.0, 50.0))
    level, priced = (optimal_plan(group, move_cost=price) for price in (0.0, cost))
    achieved = plan_values(group, priced.assignment.owner.tolist())
    saved = plan_values(group, level.assignment.owner.tolist()).moves - achieved.moves
    certificate = priced.certificate
    assert certificate.spared_moves == saved
    if not saved:
        return 0
    every, model = EveryPlan(group), build_model(group, Options(move_cost=cost))
    choice = choose_slack(model, WorkBudget.of_seconds(1))
    limits = target_limits(choice.repair_model, choice.target, choice.largest_load).load
    loads = plan_loads(group, priced.assignment.owner)
    # What is saved is worth more than the seconds above the limits, all together.
    above = np.maximum(loads - limits.of_members(loads), 0.0).sum()
    assert certificate.spared_seconds == pytest.approx(above)
    assert cost * saved > above, seed
    if certificate.moves.bound_kind != "every plan was compared":
        return saved
    # And no plan within the wider limits that crosses racks as little moves less.
    repaired, wide = choice.repair_model, priced_limits(limits, model.horizon)
    among = every.within(repaired.min_count, repaired.max_count)
    if repaired.slack == 0:
        among = every.most_even()
    among &= [wide.met(row) for row in every.loads]
    among &= every.cross_rack_cost <= every.cross_rack_cost[among].min() * ROUNDING
    assert achieved.moves == every.moves[among].min(), seed
    return saved


def checked_gap(seed):
    """Hold one group's plan at even counts against the oracle.

    Returns the gap in load, relative to the best.
    """
    group = random_group(seed)
    plan = optimal_plan(group, counts="even")
    assert violations(group, plan.assignment) == ()
    achieved = plan_values(group, plan.assignment.owner.tolist())
    model = build_model(group, Options(counts="even"))
    target = choose_slack(model, WorkBudget.of_seconds(1)).target
    components = [
        np.flatnonzero(model.component == number).tolist()
        for number in range(len(model.components.quota))
    ]
    unclear = []

    def level(loads, among):
        largest = target.drain_time * (1 + TOLERANCE)
        within = level_enough(group, loads, among, target.owner, components, largest, 0.0)
        unclear.append(within is None)
        return True if within is None else within

    best = best_values(group, TOLERANCE - HAIR)
    certificate = plan.certificate
    assert achieved.counts == best.counts, seed
    assert achieved.drain_time <= best.drain_time * (1 + TOLERANCE) * ROUNDING, seed
    clear = best == best_values(group, TOLERANCE + HAIR)
    if clear:
        best = best_values(group, TOLERANCE - HAIR, level)
    if not clear or any(unclear):
        # A plan at the very limit of load is within it or beyond it as the last digit rounds.
        return achieved.drain_time / best.drain_time - 1 if best.drain_time else 0.0
    assert achieved.cross_rack_cost <= best.cross_rack_cost, seed
    assert achieved.moves <= best.moves, seed
    # The certificate tells the plan's values, and its bounds are never above the best.
    values = (
        certificate.counts.value,
        certificate.load.value,
        certificate.cross_rack.value,
        certificate.moves.value,
    )
    assert values == pytest.approx(
        (
            max(achieved.counts, default=0),
            achieved.drain_time,
            achieved.cross_rack_cost,
            achieved.moves,
        )
    ), seed
    assert certificate.counts.bound <= max(best.counts, default=0), seed
    assert (
        certificate.load.bound <= best.drain_time * ROUNDING
        or certificate.load.bound <= achieved.drain_time * ROUNDING
    ), seed
    # Nor are those that larger groups rest on.
    assert load_bound(model).value <= best.drain_time * ROUNDING, seed
    assert cross_rack_bound(model) <= best.cross_rack_cost, seed
    assert count_moves_bound(model) <= best.moves, seed
    assert load_moves_bound(model, best.drain_time * (1 + TOLERANCE)) <= best.moves, seed
    names = plan.assignment.to_names(group)
    assert Assignment.from_names(group, names).owner.tolist() == plan.assignment.owner.tolist()
    return achieved.drain_time / best.drain_time - 1 if best.drain_time else 0.0


def histogram(gaps):
    steps = Counter(max(ceil(gap * 200 - 1e-6), 0) for gap in gaps)
    return ", ".join(f"up to {step / 2} %: {number}" for step, number in sorted(steps.items()))


@pytest.mark.slow
def test_small_groups_are_planned_in_the_order_of_the_objectives():
    for seed in range(ORDERED):
        check_order(seed)


@pytest.mark.slow
def test_of_small_groups_moves_are_left_out_whose_price_is_above_what_they_save():
    assert sum(check_price(seed) for seed in range(200)) > 10


@pytest.mark.slow
def test_small_groups_move_little_more_than_any_plan_within_five_percent_of_their_load():
    moves = fewest = 0
    for seed in range(100):
        group = drifted_group(seed)
        certificate, every = optimal_plan(group, move_cost=1.0).certificate, EveryPlan(group)
        moves += certificate.moves.value
        fewest += every.moves[every.drain_time <= certificate.load.value * 1.05].min()
    assert moves <= 1.3 * fewest


@pytest.mark.slow
def test_small_groups_with_even_counts_are_planned_as_well_as_can_be():
    for seed in range(EVEN):
        checked_gap(seed)


many_groups = pytest.mark.parametrize("groups", [800, pytest.param(10_000, marks=pytest.mark.rare)])


@pytest.mark.integration
@many_groups
def test_many_small_groups_are_planned_in_the_order_of_the_objectives(groups):
    for seed in range(ORDERED, groups):
        check_order(seed)


@pytest.mark.integration
@many_groups
def test_many_small_groups_are_planned_as_well_as_can_be(record_property, groups):
    gaps = [checked_gap(seed) for seed in range(EVEN, groups)]
    record_property("gap in load", histogram(gaps))
    print(f"gap in load over {len(gaps)} groups: {histogram(gaps)}")
    assert max(gaps) <= TOLERANCE * ROUNDING
