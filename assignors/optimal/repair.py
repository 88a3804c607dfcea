"""From what members hold to a plan that reaches the reference, with as few moves as can be found.

Law: what is held stays as it is if counts are even and load and racks are within tolerance of the reference. Otherwise several
plans that are within it are compared: the held one mended, the reference given to those who have most of it already, and the
answers of other strategies; fewest moves win, then weight across racks, then time to drain. Only where the effort was spent
before the held one was mended is that returned although it is not within it: the next plan goes on from there.
"""

from collections.abc import Iterator

import numpy as np

from assignors.optimal.model.model import Model
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.search.construct import place
from assignors.optimal.search.improve import settled
from assignors.optimal.search.relay import passed
from assignors.optimal.search.relieve import levelled
from assignors.optimal.target import (
    SEEDED,
    Target,
)
from assignors.problem.assignment import NOBODY
from assignors.problem.columns import (
    Ints,
    Longs,
)
from assignors.sticky import sticky_strategy
from assignors.strategies.lag import lag_strategy
from assignors.strategies.range import range_strategy
from assignors.strategies.uniform import uniform_strategy


def limits(terms: Model, goal: Target) -> tuple[float, int]:
    """The time to drain and the weight across racks that are good enough."""
    drain = terms.wishes.within(goal.drain)
    return drain, int(goal.crossing * (1 + terms.wishes.cross_tolerance))


def fits(terms: Model, owner: Ints, goal: Target) -> bool:
    """Whether a plan is as good as it has to be, moves aside."""
    drain, crossing = limits(terms, goal)
    return terms.even(owner) and terms.drain(owner) <= drain and terms.crossed(owner) <= crossing


def repaired(terms: Model, goal: Target, effort: WorkBudget) -> Ints:
    """The plan."""
    if fits(terms, terms.held, goal):
        return terms.held
    if not bool((terms.held >= 0).any()):
        return _best(terms, [goal.owner, *_answers(terms, goal)])
    drain, crossing = limits(terms, goal)
    mended: list[Ints] = []
    for begun in _begun(terms, goal, effort):
        mended.append(_mended(terms, begun, drain, crossing, effort if mended else effort.half()))
        if fits(terms, mended[-1], goal):
            break
    plans = [plan for plan in mended if fits(terms, plan, goal)]
    if effort.spent and not plans:  # better than most of it moved: the next plan goes on
        return min(mended, key=lambda plan: (max(terms.drain(plan), drain), terms.crossed(plan)))
    if len(terms.reader_set) <= SEEDED or not plans:
        plans += [relabelled(terms, goal.owner), *_answers(terms, goal)]
    chosen = _best(terms, [plan for plan in plans if fits(terms, plan, goal)])
    again = settled(terms, chosen, terms.held, drain, crossing, effort, "moves")
    return again if fits(terms, again, goal) else chosen


def _begun(terms: Model, goal: Target, effort: WorkBudget) -> Iterator[Ints]:
    """What is held with counts made even: with racks looked after for all, and only for what nobody holds."""
    near = place(terms, terms.held, effort)
    # Where load needs more to cross than counts do, what is held crosses for a reason.
    reasonable = terms.crossed(near) < goal.crossing
    if not reasonable:
        yield near
    yield place(terms, terms.held, effort, "free")
    if reasonable:
        yield near


def _mended(terms: Model, begun: Ints, drain: float, crossing: int, effort: WorkBudget) -> Ints:
    """What is too heavy passed on, the most loaded relieved, and racks looked after again if that needs it."""
    room = max(crossing, terms.crossed(begun))
    plan = passed(terms, begun, drain, effort)
    plan = levelled(terms, plan, terms.held, drain, effort, crossing=room)
    if terms.drain(plan) > drain:
        plan = levelled(terms, plan, terms.held, drain, effort, crossing=None)
    if terms.drain(plan) <= drain and terms.crossed(plan) > crossing:
        plan = settled(terms, plan, terms.held, drain, crossing, effort, "crossing")
    return plan


def _best(terms: Model, plans: list[Ints]) -> Ints:
    def cost(owner: Ints) -> tuple[int, int, float, float]:
        moved = terms.moved(owner)
        return (
            int(np.count_nonzero(moved)),
            terms.crossed(owner),
            terms.drain(owner),
            float(terms.load[moved].sum()),
        )

    return min(plans, key=cost)


def _answers(terms: Model, goal: Target) -> list[Ints]:
    """What other strategies answer, as far as it will do."""
    if len(terms.reader_set) > SEEDED:
        return []
    answers = (
        strategy(terms.group).owner
        for strategy in (lag_strategy, range_strategy, sticky_strategy, uniform_strategy)
    )
    return [owner for owner in answers if fits(terms, owner, goal)]


def relabelled(terms: Model, owner: Ints) -> Ints:
    """The same shares, each to the member among interchangeable ones that holds most of it.

    Members are interchangeable that are of one kind and of one capacity. Pairs are taken by what they have in common.
    """
    there = np.flatnonzero((owner >= 0) & (terms.held >= 0))
    members = len(terms.kind)
    _, sort = np.unique(np.column_stack([terms.kind, terms.capacity]), axis=0, return_inverse=True)
    sort = sort.ravel()
    there = there[sort[owner[there]] == sort[terms.held[there]]]
    pair = owner[there].astype(np.int64) * members + terms.held[there]
    pairs, common = np.unique(pair, return_counts=True)
    order = np.lexsort((pairs, -common))
    name = np.full(members, NOBODY, dtype=np.int64)
    used = np.zeros(members, dtype=np.bool_)
    for share, holder in zip(
        *(column.tolist() for column in np.divmod(pairs[order], members)), strict=True
    ):
        if name[share] < 0 and not used[holder]:
            name[share] = holder
            used[holder] = True
    _rest(name, used, sort)
    return np.where(owner >= 0, name[owner], NOBODY).astype(np.int32)


def _rest(name: Longs, used: np.ndarray, sort: Longs) -> None:
    """Give what nobody holds anything of to the members that are left, in order."""
    shares, holders = np.flatnonzero(name < 0), np.flatnonzero(~used)
    shares = shares[np.argsort(sort[shares], kind="stable")]
    holders = holders[np.argsort(sort[holders], kind="stable")]
    name[shares] = holders
