"""The least slack that load needs: how far counts depart from the most even ones.

Slacks 0, 1, 2, 4, ... up to the bound are tried (0 and the bound in large groups), the smallest
first, until the largest load is within tolerance of what no plan within the bound can be below. If
none comes so close, the least slack counts whose largest load is within tolerance of the best one
found.

Guarantees: the slack depends on no current owner, so it is the same before and after a plan is
carried out. Where load is nothing, or all of it is below the floor, the slack is 0: counts are even
where nothing is known of load.
"""

from dataclasses import dataclass, replace

from levelwind.assignors.optimal.bounds import Bound, load_bound
from levelwind.assignors.optimal.model.model import Model
from levelwind.assignors.optimal.model.work_budget import WorkBudget
from levelwind.assignors.optimal.search.exact import ExactProblem, exact_problem
from levelwind.assignors.optimal.search.level import level_fully
from levelwind.assignors.optimal.target import MAX_SEEDED_PARTITIONS, Target, find_target


@dataclass(frozen=True, slots=True)
class SlackChoice:
    """The least slack that load needs, and the plan from scratch at that slack."""

    model: Model
    """The problem at that slack."""
    target: Target
    """The plan from scratch, with the best largest load of any slack."""
    bound: Bound
    """Largest load that no plan within the bound of the slack is below."""
    exact: bool
    """Whether every plan was compared."""

    @property
    def largest_load(self) -> float:
        """Limit of the largest load, in seconds.

        The tolerance counts once: from what no plan can beat, where a plan was found that close to
        it. Only where none was, it counts from the best largest load that was found.
        """
        options, best = self.model.options, self.target.drain_time
        proven = best if self.exact else self.bound.value
        return options.longest_drain_time(best, options.acceptable_drain_time(proven))

    @property
    def repair_model(self) -> Model:
        """The problem that a plan which keeps current owners has to solve."""
        idle = not self.model.slack and (self.target.drain_time <= self.model.options.load_floor)
        # Below the floor nothing is known of load: counts stay even, whatever moves for that.
        if idle or not self.model.limits.largest_slack:
            return self.model
        return self.model.for_repair(self.target.owner)


def choose_slack(model: Model, budget: WorkBudget) -> SlackChoice:
    """Find the least slack that load needs, and a plan from scratch.

    Args:
        model: the problem, at any slack.
        budget: how much may be tried.
    """
    widest = model.with_slack(model.limits.largest_slack)
    bound = load_bound(widest)
    every_plan = exact_problem(widest)
    if every_plan is not None:
        return _choose_exactly(model, every_plan, bound)
    return _choose_by_search(model, bound, budget)


def _slacks(model: Model) -> list[int]:
    """The slacks to try, ascending."""
    largest = model.limits.largest_slack
    # Each slack is a search of its own: in a large group only the bound itself is worth one.
    few = len(model.reader_set) > MAX_SEEDED_PARTITIONS
    steps = [] if few else [2**step for step in range(largest.bit_length())]
    return sorted({0, largest, *(step for step in steps if step < largest)})


def _choose_exactly(model: Model, every_plan: ExactProblem, bound: Bound) -> SlackChoice:
    best = every_plan.min_drain_time()
    limit = model.options.acceptable_drain_time(best)
    for slack in _slacks(model):
        problem = exact_problem(model.with_slack(slack)) or every_plan
        if problem.min_drain_time() <= limit:
            break
    owner = problem.most_level(limit)
    target = Target(owner, best, problem.model.total_cross_rack_cost(owner))
    return SlackChoice(problem.model, target, bound, exact=True)


def _choose_by_search(model: Model, bound: Bound, budget: WorkBudget) -> SlackChoice:
    enough = model.options.acceptable_drain_time(bound.value)
    bounds: dict[int, Bound] = {}
    found: dict[int, Target] = {}
    slacks = _slacks(model)
    for slack in slacks:
        limited = model.with_slack(slack)
        bounds[slack] = load_bound(limited)
        if bounds[slack].value > enough and slack != slacks[-1]:
            continue  # no plan with such counts is good enough
        found[slack] = find_target(limited, bounds[slack], budget.half(), enough)
        if found[slack].drain_time <= enough or budget.exhausted:
            break
    best = min(target.drain_time for target in found.values())
    limit = model.options.longest_drain_time(best, enough)
    for slack in slacks:  # a slack that was passed over may come as close as the best one found
        if slack not in found and slack in bounds and bounds[slack].value <= limit:
            found[slack] = find_target(model.with_slack(slack), bounds[slack], budget.half(), limit)
        if slack in found and model.max_drain_time(found[slack].owner) <= limit:
            break
    best = min(target.drain_time for target in found.values())
    limit = model.options.longest_drain_time(best, enough)
    chosen = min(
        (model.max_drain_time(target.owner) > limit, number) for number, target in found.items()
    )[1]
    model = model.with_slack(chosen)
    owner = level_fully(model, found[chosen].owner, budget.half())
    best = min(best, model.max_drain_time(owner))
    target = replace(found[chosen], owner=owner, drain_time=best)
    return SlackChoice(model, target, bound, exact=False)
