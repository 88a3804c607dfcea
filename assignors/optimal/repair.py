"""Repair: from the current ownership to a plan that meets the target with few moves.

Guarantees: several plans within tolerance of the target compete: the current ownership repaired,
the target with its shares relabelled to the members that own most of them, and the plans of other
strategies. Fewest moves win, then the lowest cross-rack cost, then the shortest time to drain. The
repaired ownership is levelled below its largest load as far as moves and exchanges reach: where the
target is more level than that, the others do not win by it, since they would move most partitions.
If the work budget runs out before the current plan is repaired, that plan is returned although it
misses the target; the next plan continues from it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from levelwind.assignors.optimal.model.load_limits import LoadLimits, load_limits
from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.construct import construct
from levelwind.assignors.optimal.search.even_out import even_out
from levelwind.assignors.optimal.search.improve import improve
from levelwind.assignors.optimal.search.level import level
from levelwind.assignors.optimal.search.relay import relay
from levelwind.assignors.optimal.search.relieve import relieve
from levelwind.assignors.optimal.target import MAX_SEEDED_PARTITIONS, Target
from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Floats, Ints, Longs
from levelwind.assignors.sticky import sticky_strategy
from levelwind.assignors.strategies.lag import lag_strategy
from levelwind.assignors.strategies.range import range_strategy
from levelwind.assignors.strategies.uniform import uniform_strategy


class TargetLimits(NamedTuple):
    """Limits within which a plan is as good as the target."""

    load: LoadLimits
    cross_rack_cost: int


def target_limits(model: Model, target: Target, largest_load: float) -> TargetLimits:
    """The limits that a plan from scratch sets."""
    return TargetLimits(
        load_limits(model, target.owner, largest_load),
        int(target.cross_rack_cost * (1 + model.options.cross_tolerance)),
    )


def meets_target(model: Model, owner: Ints, limits: TargetLimits) -> bool:
    """Return whether a plan is feasible and within the target's limits, whatever it moves."""
    return _is_passable(model, owner, limits) and limits.load.met(model.drain_time(owner))


def _is_passable(model: Model, owner: Ints, limits: TargetLimits) -> bool:
    """Whether a plan is within the target's limits, those below the largest load left out."""
    return (
        model.is_feasible(owner)
        and model.max_drain_time(owner) <= limits.load.largest
        and model.total_cross_rack_cost(owner) <= limits.cross_rack_cost
    )


def repair(model: Model, target: Target, limits: TargetLimits, budget: WorkBudget) -> Ints:
    """Return a plan that meets the target with few moves, where the current ownership does not.

    Args:
        model: the problem.
        target: the plan from scratch.
        limits: its limits, or wider ones.
        budget: how much may be tried.
    """
    plan = _with_few_moves(model, target, limits, budget)
    plan = even_out(model, plan, _member_limits(model, plan, limits))
    # Last: a plan that cannot be levelled further is left as it is by the next plan, too.
    return _levelled(model, target, plan, limits, budget)


def _with_few_moves(model: Model, target: Target, limits: TargetLimits, budget: WorkBudget) -> Ints:
    if not bool((model.keepable_owner >= 0).any()):
        return _cheapest_plan(model, [target.owner, *_strategy_plans(model, limits)])
    repaired_plans: list[Ints] = []
    for start in _starting_plans(model, target, limits, budget):
        repaired_plans.append(
            _mend(model, target, start, limits, budget if repaired_plans else budget.half())
        )
        if _is_passable(model, repaired_plans[-1], limits):
            break
    plans = [plan for plan in repaired_plans if _is_passable(model, plan, limits)]
    # Better a plan short of the target than moving most partitions: the next plan continues.
    if budget.exhausted and not plans:
        return min(
            repaired_plans,
            key=lambda plan: (
                max(model.max_drain_time(plan), limits.load.largest),
                model.total_cross_rack_cost(plan),
            ),
        )
    if len(model.reader_set) <= MAX_SEEDED_PARTITIONS or not plans:
        relabelled = relabel(model, target.owner)
        plans += [plan for plan in [relabelled] if meets_target(model, plan, limits)]
        plans += _strategy_plans(model, limits)
    chosen = _cheapest_plan(model, plans or [target.owner])
    improved = improve(
        model,
        chosen,
        model.keepable_owner,
        _member_limits(model, chosen, limits),
        limits.cross_rack_cost,
        budget,
        "moves",
    )
    return improved if _is_passable(model, improved, limits) else chosen


def _member_limits(model: Model, owner: Ints, limits: TargetLimits) -> Floats:
    """M: limit of each member's load by its rank under a plan, or its load, which it keeps."""
    drain_time = model.drain_time(owner)
    return np.maximum(limits.load.of_members(drain_time), drain_time)


def _starting_plans(
    model: Model, target: Target, limits: TargetLimits, budget: WorkBudget
) -> Iterator[Ints]:
    """The current ownership where it only has to be levelled, else with counts made even.

    Rack-local for all partitions, and for unowned ones only.
    """
    if _is_passable(model, model.keepable_owner, limits):
        yield model.keepable_owner
        return
    rack_local_start = construct(model, model.keepable_owner, budget)
    # If load needs more cross-rack reads than counts do, the current ones have a reason.
    justified = model.total_cross_rack_cost(rack_local_start) < target.cross_rack_cost
    if not justified:
        yield rack_local_start
    yield construct(model, model.keepable_owner, budget, "unowned")
    if justified:
        yield rack_local_start


def _mend(
    model: Model, target: Target, start: Ints, limits: TargetLimits, budget: WorkBudget
) -> Ints:
    """Bring the load, and then the cross-rack cost, of a plan within their limits.

    Members pass on what is too heavy (`relay`), the most loaded members are relieved (`relieve`),
    with more cross-rack reads only if that is not enough, and the cross-rack cost is lowered again
    (`improve`). Then the members below the largest load are levelled (`level`).
    """
    max_drain_time = limits.load.largest
    room = max(limits.cross_rack_cost, model.total_cross_rack_cost(start))
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
        and model.total_cross_rack_cost(plan) > limits.cross_rack_cost
    ):
        plan = improve(
            model,
            plan,
            model.keepable_owner,
            np.full(len(model.member_class), max_drain_time),
            limits.cross_rack_cost,
            budget,
            "cross_rack",
        )
    return _levelled(model, target, plan, limits, budget)


def _levelled(
    model: Model, target: Target, plan: Ints, limits: TargetLimits, budget: WorkBudget
) -> Ints:
    """A plan with the members below the largest load brought within their limits."""
    model = model.with_shares(target.owner)  # as long as this plan holds, nobody is new
    room = max(limits.cross_rack_cost, model.total_cross_rack_cost(plan))
    return level(
        model, plan, model.keepable_owner, limits.load.of_members, budget, max_cross_rack_cost=room
    )


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


def _strategy_plans(model: Model, limits: TargetLimits) -> list[Ints]:
    """Plans of other strategies that meet the target; none for large groups."""
    if len(model.reader_set) > MAX_SEEDED_PARTITIONS:
        return []
    owners = (
        strategy(model.group).owner
        for strategy in (lag_strategy, range_strategy, sticky_strategy, uniform_strategy)
    )
    return [owner for owner in owners if meets_target(model, owner, limits)]


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
