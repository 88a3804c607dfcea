"""The plan that one would make if nobody owned anything: the measure of every other one.

Law: it depends on nothing that members own, so the largest time to drain and the weight across racks that it reaches are the
same before and after a plan. Whatever is returned meets both within their tolerances; hence an unchanged input, owned as it
was planned, meets them too and stays.
"""

from dataclasses import dataclass

import numpy as np

from assignors.optimal.bounds import Bound
from assignors.optimal.model.model import (
    Model,
    summed,
)
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.search.construct import place
from assignors.optimal.search.improve import settled
from assignors.optimal.search.relieve import levelled
from assignors.problem.assignment import NOBODY
from assignors.problem.columns import Ints
from assignors.strategies.lag import lag_strategy
from assignors.strategies.range import range_strategy

CLOSE = 0.25  # of the tolerance: as near to the bound as this is near enough
MANY = 24  # kinds of members, of which not all exchanges were tried
SEEDED = 2_000  # partitions up to which other strategies' answers are tried too


@dataclass(frozen=True, slots=True)
class Target:
    """A plan from nobody's claims, and what every plan must reach."""

    owner: Ints
    drain: float  # the least longest time to drain that was found
    crossing: int  # the least weight across racks that was found within the tolerance of that


def reference(terms: Model, bound: Bound, effort: WorkBudget) -> Target:
    """Find it."""
    nobody = np.full(len(terms.reader_set), NOBODY, dtype=np.int32)
    tolerance = terms.wishes.load_tolerance
    enough = terms.wishes.within(bound.value)
    goal = max(bound.value * (1 + CLOSE * tolerance), terms.wishes.load_floor)
    # What a few partitions alone make so can often be had exactly: by lighter company for them.
    aim = max(bound.value, terms.wishes.load_floor) if bound.partitions else goal
    near = place(terms, nobody, effort.half())
    # Where kinds are few and uneven, no exchange that costs nothing across racks will do.
    many = len(terms.signature) > MANY
    if many or _between_kinds(terms, near) <= enough:
        part = effort if many else effort.half()
        near = levelled(terms, near, nobody, aim, part, crossing=terms.crossed(near), enough=enough)
    plans = [near]
    if terms.drain(near) > enough:
        paid = place(terms, nobody, effort.half(), "paid")
        plans.append(
            levelled(
                terms, paid, nobody, aim, effort.half(), crossing=terms.crossed(paid), enough=enough
            )
        )
        if terms.drain(plans[-1]) > enough:
            plans += _regardless_of_racks(terms, nobody, goal, near, effort)
    if terms.drain(near) > bound.value and 2 * terms.crossed(near) >= _blind(terms):
        dealt = lag_strategy(
            terms.group
        ).owner  # who looks at load alone may come closer still, where racks make no difference
        plans += [dealt] if terms.even(dealt) else []
    drain = min(map(terms.drain, plans))
    limit = terms.wishes.within(drain)
    if drain > enough:  # what is near may come within reach of what is not
        plans.append(levelled(terms, near, nobody, limit, effort, crossing=None))
    fit = [plan for plan in plans if terms.drain(plan) <= limit]
    least = terms.crossed(near)
    fit = [
        settled(terms, plan, nobody, limit, terms.crossed(plan), effort.half(), "crossing")
        if terms.crossed(plan) > least or len(plans) > 1
        else plan
        for plan in fit
    ]
    best = min(fit, key=lambda plan: (terms.crossed(plan), terms.drain(plan)))
    return Target(best, drain, terms.crossed(best))


def _blind(terms: Model) -> float:
    """The weight that crosses racks, more or less, if nobody looks at them."""
    place = terms.rack[terms.kind] % terms.far.shape[1]  # an unknown rack is the last
    away = terms.far @ (np.bincount(place, minlength=terms.far.shape[1]) / max(len(place), 1))
    return float((away[terms.rackset] * terms.weight)[terms.taken].sum())


def _between_kinds(terms: Model, owner: Ints) -> float:
    """The longest time to drain if each kind's load were even within it."""
    kinds = len(terms.signature)
    work = summed(terms.kind, terms.work(owner), kinds)
    return float((work / summed(terms.kind, terms.capacity, kinds)).max(initial=0.0))


def _regardless_of_racks(
    terms: Model, nobody: Ints, goal: float, near: Ints, effort: WorkBudget
) -> list[Ints]:
    """Plans in which load is all that counts, from several beginnings."""
    begun = [near, place(terms, nobody, effort.half(), "none")]
    if len(terms.reader_set) <= SEEDED:
        seeds = (strategy(terms.group).owner for strategy in (lag_strategy, range_strategy))
        begun += [owner for owner in seeds if terms.even(owner)]
    return [levelled(terms, plan, nobody, goal, effort, crossing=None) for plan in begun]
