"""The plan that one would make if nobody owned anything: the measure of every other one.

Law: it depends on nothing that members own, so the largest time to drain and the weight across racks that it reaches are the
same before and after a plan. Whatever is returned meets both within their tolerances; hence an unchanged input, owned as it
was planned, meets them too and stays.
"""

from dataclasses import dataclass

import numpy as np

from assignors.assignment import NOBODY
from assignors.columns import Ints
from assignors.lag import lag
from assignors.optimal.bounds import Bound
from assignors.optimal.effort import Effort
from assignors.optimal.levelling import levelled
from assignors.optimal.placing import place
from assignors.optimal.settling import settled
from assignors.optimal.terms import Terms
from assignors.range import range_

CLOSE = 0.25  # of the tolerance: as near to the bound as this is near enough
SEEDED = 2_000  # partitions up to which other strategies' answers are tried too


@dataclass(frozen=True, slots=True)
class Reference:
    """A plan from nobody's claims, and what every plan must reach."""

    owner: Ints
    drain: float  # the least longest time to drain that was found
    crossing: int  # the least weight across racks that was found within the tolerance of that


def reference(terms: Terms, bound: Bound, effort: Effort) -> Reference:
    """Find it."""
    nobody = np.full(len(terms.audience), NOBODY, dtype=np.int32)
    tolerance = terms.wishes.load_tolerance
    goal = bound.value * (1 + CLOSE * tolerance)
    near = place(terms, nobody)
    near = levelled(terms, near, nobody, goal, effort, crossing=terms.crossed(near))
    plans = [near]
    if terms.drain(near) > bound.value * (1 + tolerance):
        plans += _regardless_of_racks(terms, nobody, goal, near, effort)
    drain = min(map(terms.drain, plans))
    limit = drain * (1 + tolerance)
    if len(plans) > 1:
        plans.append(levelled(terms, near, nobody, limit, effort, crossing=None))
    fit = [plan for plan in plans if terms.drain(plan) <= limit]
    least = terms.crossed(near)
    fit = [
        settled(terms, plan, nobody, limit, terms.crossed(plan), effort, "crossing")
        if terms.crossed(plan) > least or len(plans) > 1
        else plan
        for plan in fit
    ]
    best = min(fit, key=lambda plan: (terms.crossed(plan), terms.drain(plan)))
    return Reference(best, drain, terms.crossed(best))


def _regardless_of_racks(terms: Terms, nobody: Ints, goal: float, near: Ints, effort: Effort) -> list[Ints]:
    """Plans in which load is all that counts, from several beginnings."""
    begun = [near, place(terms, nobody, racks=False)]
    if len(terms.audience) <= SEEDED:
        seeds = (strategy(terms.group).owner for strategy in (lag, range_))
        begun += [owner for owner in seeds if terms.even(owner)]
    return [levelled(terms, plan, nobody, goal, effort, crossing=None) for plan in begun]
