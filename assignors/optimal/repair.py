"""Repair: from the current ownership to a plan that meets the target with few moves.

Guarantees: several plans within tolerance of the target compete: the current ownership repaired,
the target with its shares relabelled to the members that own most of them, and the plans of other
strategies. Fewest moves win, then the lowest cross-rack cost, then the shortest time to drain. If
the work budget runs out before the current plan is repaired, that plan is returned although it
misses the target; the next plan continues from it.
"""

from collections.abc import Iterator

import numpy as np

from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.construct import construct
from levelwind.assignors.optimal.search.improve import improve
from levelwind.assignors.optimal.search.relay import relay
from levelwind.assignors.optimal.search.relieve import relieve
from levelwind.assignors.optimal.target import MAX_SEEDED_PARTITIONS, Target
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Ints, Longs
from levelwind.assignors.sticky import sticky_strategy
from levelwind.assignors.strategies.lag import lag_strategy
from levelwind.assignors.strategies.range import range_strategy
from levelwind.assignors.strategies.uniform import uniform_strategy


def target_limits(model: Model, target: Target) -> tuple[float, int]:
    """Longest acceptable time to drain and largest acceptable cross-rack cost."""
    max_drain_time = model.options.acceptable_drain_time(target.drain_time)
    return max_drain_time, int(target.cross_rack_cost * (1 + model.options.cross_tolerance))


def meets_target(model: Model, owner: Ints, target: Target) -> bool:
    """Return whether a plan is feasible and within tolerance of the target, whatever it moves."""
    max_drain_time, max_cross_rack_cost = target_limits(model, target)
    return (
        model.is_feasible(owner)
        and model.max_drain_time(owner) <= max_drain_time
        and model.total_cross_rack_cost(owner) <= max_cross_rack_cost
    )


def repair(model: Model, target: Target, budget: WorkBudget) -> Ints:
    """Return a plan that meets the target with few moves, where the current ownership does not."""
    if not bool((model.keepable_owner >= 0).any()):
        return _cheapest_plan(model, [target.owner, *_strategy_plans(model, target)])
    max_drain_time, max_cross_rack_cost = target_limits(model, target)
    repaired_plans: list[Ints] = []
    for start in _starting_plans(model, target, budget):
        repaired_plans.append(
            _mend(
                model,
                start,
                max_drain_time,
                max_cross_rack_cost,
                budget if repaired_plans else budget.half(),
            )
        )
        if meets_target(model, repaired_plans[-1], target):
            break
    plans = [plan for plan in repaired_plans if meets_target(model, plan, target)]
    # Better a plan short of the target than moving most partitions: the next plan continues.
    if budget.exhausted and not plans:
        return min(
            repaired_plans,
            key=lambda plan: (
                max(model.max_drain_time(plan), max_drain_time),
                model.total_cross_rack_cost(plan),
            ),
        )
    if len(model.reader_set) <= MAX_SEEDED_PARTITIONS or not plans:
        plans += [relabel(model, target.owner), *_strategy_plans(model, target)]
    chosen = _cheapest_plan(model, [plan for plan in plans if meets_target(model, plan, target)])
    improved = improve(
        model, chosen, model.keepable_owner, max_drain_time, max_cross_rack_cost, budget, "moves"
    )
    return improved if meets_target(model, improved, target) else chosen


def _starting_plans(model: Model, target: Target, budget: WorkBudget) -> Iterator[Ints]:
    """The current ownership with counts made even.

    Rack-local for all partitions, and for unowned ones only.
    """
    rack_local_start = construct(model, model.keepable_owner, budget)
    # If load needs more cross-rack reads than counts do, the current ones have a reason.
    justified = model.total_cross_rack_cost(rack_local_start) < target.cross_rack_cost
    if not justified:
        yield rack_local_start
    yield construct(model, model.keepable_owner, budget, "unowned")
    if justified:
        yield rack_local_start


def _mend(
    model: Model, start: Ints, max_drain_time: float, max_cross_rack_cost: int, budget: WorkBudget
) -> Ints:
    """Bring the load, and then the cross-rack cost, of a plan within their limits.

    Members pass on what is too heavy (`relay`), the most loaded members are relieved (`relieve`),
    with more cross-rack reads only if that is not enough, and the cross-rack cost is lowered again
    (`improve`).
    """
    room = max(max_cross_rack_cost, model.total_cross_rack_cost(start))
    plan = relay(model, start, max_drain_time, budget)
    plan = relieve(
        model, plan, model.keepable_owner, max_drain_time, budget, max_cross_rack_cost=room
    )
    if model.max_drain_time(plan) > max_drain_time:
        plan = relieve(
            model, plan, model.keepable_owner, max_drain_time, budget, max_cross_rack_cost=None
        )
    if (
        model.max_drain_time(plan) <= max_drain_time
        and model.total_cross_rack_cost(plan) > max_cross_rack_cost
    ):
        plan = improve(
            model,
            plan,
            model.keepable_owner,
            max_drain_time,
            max_cross_rack_cost,
            budget,
            "cross_rack",
        )
    return plan


def _cheapest_plan(model: Model, plans: list[Ints]) -> Ints:
    """The plan with fewest moves.

    Then with the lowest cross-rack cost, the shortest time to drain, and least load moved.
    """

    def cost(owner: Ints) -> tuple[int, int, float, float]:
        moved = model.moved(owner)
        return (
            int(np.count_nonzero(moved)),
            model.total_cross_rack_cost(owner),
            model.max_drain_time(owner),
            float(model.load[moved].sum()),
        )

    return min(plans, key=cost)


def _strategy_plans(model: Model, target: Target) -> list[Ints]:
    """Plans of other strategies that meet the target; none for large groups."""
    if len(model.reader_set) > MAX_SEEDED_PARTITIONS:
        return []
    owners = (
        strategy(model.group).owner
        for strategy in (lag_strategy, range_strategy, sticky_strategy, uniform_strategy)
    )
    return [owner for owner in owners if meets_target(model, owner, target)]


def relabel(model: Model, owner: Ints) -> Ints:
    """Give each share of a plan to the interchangeable member that owns most of it.

    Members of one class and of one capacity are interchangeable. Pairs of a share and a member are
    matched greedily, the pair with most partitions in common first.
    """
    owned = np.flatnonzero((owner >= 0) & (model.keepable_owner >= 0))
    members = len(model.member_class)
    _, alike = np.unique(
        np.column_stack([model.member_class, model.capacity]), axis=0, return_inverse=True
    )
    alike = alike.ravel()
    owned = owned[alike[owner[owned]] == alike[model.keepable_owner[owned]]]
    pair = owner[owned].astype(np.int64) * members + model.keepable_owner[owned]
    pairs, common = np.unique(pair, return_counts=True)
    order = np.lexsort((pairs, -common))
    new_owner = np.full(members, NOBODY, dtype=np.int64)
    used = np.zeros(members, dtype=np.bool_)
    for share, holder in zip(
        *(column.tolist() for column in np.divmod(pairs[order], members)), strict=True
    ):
        if new_owner[share] < 0 and not used[holder]:
            new_owner[share] = holder
            used[holder] = True
    _match_rest(new_owner, used, alike)
    return np.where(owner >= 0, new_owner[owner], NOBODY).astype(np.int32)


def _match_rest(new_owner: Longs, used: np.ndarray, alike: Longs) -> None:
    """Give the shares without a match to the members without one, in order."""
    shares, holders = np.flatnonzero(new_owner < 0), np.flatnonzero(~used)
    shares = shares[np.argsort(alike[shares], kind="stable")]
    holders = holders[np.argsort(alike[holders], kind="stable")]
    new_owner[shares] = holders
