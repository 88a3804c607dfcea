"""The target: the plan from scratch, against which every other plan is measured.

Guarantees: the target depends on no current owner, so the longest time to drain and the cross-rack
cost that it reaches are the same before and after a plan is carried out. Every returned plan meets
both within their tolerances; hence an unchanged group that owns what was planned meets them, too,
and nothing moves.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.optimal.bounds import Bound
from levelwind.assignors.optimal.model.model import Model, sum_by_index
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.construct import construct
from levelwind.assignors.optimal.search.improve import improve
from levelwind.assignors.optimal.search.relieve import relieve
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Ints
from levelwind.assignors.strategies.lag import lag_strategy
from levelwind.assignors.strategies.range import range_strategy

CLOSE_TO_BOUND = 0.25
"""Share of the load tolerance within which a plan counts as close enough to the bound."""
MANY_CLASSES = 24
"""Member classes beyond which not all exchanges between classes were tried."""
MAX_SEEDED_PARTITIONS = 2_000
"""Partitions up to which the plans of other strategies are tried, too."""


@dataclass(frozen=True, slots=True)
class Target:
    """A plan from scratch, and the values that every plan must reach within tolerance."""

    owner: Ints
    """P: owner of each partition."""
    drain_time: float
    """Best longest time to drain that was found."""
    cross_rack_cost: int
    """Lowest cross-rack cost that was found within the tolerance of that time to drain."""


@dataclass(frozen=True, slots=True)
class _LoadAim:
    """Longest times to drain that the search for the target aims at."""

    bound: float
    """Lower bound; no plan is below it."""
    enough: float
    """Longest time to drain that is good enough: within the tolerance of the bound."""
    close: float
    """Longest time to drain that is close enough to the bound to end the search."""
    first: float
    """Aim of the first plans: the bound itself where few partitions cause it, else `close`."""

    @classmethod
    def of(cls, model: Model, bound: Bound, enough: float) -> "_LoadAim":
        """Derive the aims from the bound and the options."""
        options = model.options
        close = bound.value * (1 + CLOSE_TO_BOUND * options.load_tolerance)
        close = max(close, options.load_floor)
        # A bound that few partitions cause can often be met exactly, with lighter ones beside them.
        first = max(bound.value, options.load_floor) if bound.partitions else close
        return cls(bound.value, max(enough, bound.value), close, first)


def find_target(model: Model, bound: Bound, budget: WorkBudget, enough: float) -> Target:
    """Search for the best largest load, then for the lowest cross-rack cost at that load.

    Args:
        model: the problem, at one slack.
        bound: lower bound on the largest load.
        budget: how much may be tried.
        enough: largest load that is good enough.
    """
    no_owner = np.full(len(model.reader_set), NOBODY, dtype=np.int32)
    aim = _LoadAim.of(model, bound, enough)
    rack_local = _rack_local_plan(model, no_owner, aim, budget)
    plans = [rack_local, *_plans_by_load(model, no_owner, aim, rack_local, budget)]
    drain_time = min(map(model.max_drain_time, plans))
    limit = model.options.longest_drain_time(drain_time, aim.enough)
    if drain_time > aim.enough:  # the rack-local plan may come within reach of the others
        plans.append(relieve(model, rack_local, no_owner, limit, budget, max_cross_rack_cost=None))
    rack_local_cost = model.total_cross_rack_cost(rack_local)
    best = min(
        (
            improve(
                model,
                plan,
                no_owner,
                np.full(len(model.member_class), limit),
                model.total_cross_rack_cost(plan),
                budget.half(),
                "cross_rack",
            )
            if model.total_cross_rack_cost(plan) > rack_local_cost or len(plans) > 1
            else plan
            for plan in plans
            if model.max_drain_time(plan) <= limit
        ),
        key=lambda plan: (model.total_cross_rack_cost(plan), model.max_drain_time(plan)),
    )
    return Target(best, drain_time, model.total_cross_rack_cost(best))


def _rack_local_plan(model: Model, no_owner: Ints, aim: _LoadAim, budget: WorkBudget) -> Ints:
    """The plan of lowest cross-rack cost, with its load balanced at that cost."""
    plan = construct(model, no_owner, budget.half())
    # If few member classes are unevenly loaded, no exchange without cross-rack cost can be enough.
    many_classes = model.class_count > MANY_CLASSES
    if not many_classes and _drain_time_between_classes(model, plan) > aim.enough:
        return plan
    return relieve(
        model,
        plan,
        no_owner,
        aim.first,
        budget if many_classes else budget.half(),
        max_cross_rack_cost=model.total_cross_rack_cost(plan),
        enough=aim.enough,
    )


def _plans_by_load(
    model: Model, no_owner: Ints, aim: _LoadAim, rack_local: Ints, budget: WorkBudget
) -> list[Ints]:
    """Plans that pay for load with cross-rack reads, as far as the rack-local plan needs that."""
    plans = []
    if model.max_drain_time(rack_local) > aim.enough:
        load_first = construct(model, no_owner, budget.half(), "load_first")
        load_first = relieve(
            model,
            load_first,
            no_owner,
            aim.first,
            budget.half(),
            max_cross_rack_cost=model.total_cross_rack_cost(load_first),
            enough=aim.enough,
        )
        plans.append(load_first)
        if model.max_drain_time(load_first) > aim.enough:
            plans += _rack_blind_plans(model, no_owner, aim.close, rack_local, budget)
    racks_matter = 2 * model.total_cross_rack_cost(rack_local) < _rack_blind_cost(model)
    if model.max_drain_time(rack_local) > aim.bound and not racks_matter:
        # Where racks hardly matter, a strategy that balances load alone may come closer still.
        by_lag = lag_strategy(model.group).owner
        plans += [by_lag] if model.is_feasible(by_lag) else []
    return plans


def _rack_blind_cost(model: Model) -> float:
    """Expected cross-rack cost of a plan that ignores racks."""
    # The unknown rack, -1, is the last column.
    rack = model.class_rack[model.member_class] % model.rack_remote.shape[1]
    remote_share = model.rack_remote @ (
        np.bincount(rack, minlength=model.rack_remote.shape[1]) / max(len(rack), 1)
    )
    return float((remote_share[model.rack_set] * model.weight)[model.assignable].sum())


def _drain_time_between_classes(model: Model, owner: Ints) -> float:
    """Longest time to drain if each member class's load were spread evenly within it."""
    classes = model.class_count
    class_load = sum_by_index(model.member_class, model.member_load(owner), classes)
    return float(
        (class_load / sum_by_index(model.member_class, model.capacity, classes)).max(initial=0.0)
    )


def _rack_blind_plans(
    model: Model, no_owner: Ints, goal_drain_time: float, rack_local: Ints, budget: WorkBudget
) -> list[Ints]:
    """Plans that optimise load alone, from several starting plans."""
    starts = [rack_local, construct(model, no_owner, budget.half(), "none")]
    if len(model.reader_set) <= MAX_SEEDED_PARTITIONS:
        seeds = (strategy(model.group).owner for strategy in (lag_strategy, range_strategy))
        starts += [owner for owner in seeds if model.is_feasible(owner)]
    return [
        relieve(model, plan, no_owner, goal_drain_time, budget, max_cross_rack_cost=None)
        for plan in starts
    ]
