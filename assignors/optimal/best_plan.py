"""`optimal`: lag, racks, balance and stability in one plan, with a certificate.

Source: the order of objectives is this project's own; see the modules beside this one for each part's.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from assignors.optimal.bounds import load_bound
from assignors.optimal.certificate import Certificate, certified
from assignors.optimal.model.model import (
    Model,
    terms,
)
from assignors.optimal.model.plan_options import Options
from assignors.optimal.model.work_budget import WorkBudget
from assignors.optimal.repair import fits, repaired
from assignors.optimal.search.exact import exact
from assignors.optimal.search.truncate import cut
from assignors.optimal.target import (
    Target,
    reference,
)
from assignors.problem.assignment import Assignment
from assignors.problem.columns import Bools
from assignors.problem.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalPlan:
    """The answer, and how good it is."""

    assignment: Assignment
    certificate: Certificate


def optimal_strategy(group: Group, **options: Any) -> Assignment:
    """The owners that are best in these respects, in this order.

    Law: 1. every partition that has a reader is assigned, and pins, drains and evacuations are kept; 2. counts are as even as
    subscriptions allow; 3. the longest time to drain is within `load_tolerance` of the best found; 4. the least traffic crosses
    racks within that; 5. fewest partitions move within that. An answer that is held already is given again: nothing moves
    where nothing changed, unless `max_moves` cut the plan before. Load comes before moves: when a member leaves and what it
    had fits nobody within the tolerance, others pass some of theirs on; the certificate says how many must at least.
    Ties: partitions and members by number.
    Cost: O(P log P) for P partitions, and refinement within a fixed amount of work, which `time_budget` may cut.

    Raises:
        ProblemError: an option has the wrong shape.
        SolverMissingError: the group needs flows, and OR-tools is not installed.
    """
    return optimal_plan(group, **options).assignment


def optimal_plan(group: Group, **options: Any) -> OptimalPlan:
    """The same with its certificate."""
    wishes = Options.read(options)
    effort = WorkBudget.of(wishes.time_budget)
    stated = terms(group, wishes)
    bound = load_bound(stated)
    small = exact(stated)
    if small is not None:
        goal = Target(small.owner, small.drain, small.crossing)
        whole = stated.held if fits(stated, stated.held, goal) else small.owner
    else:
        goal = reference(stated, bound, effort.half())
        whole = repaired(stated, goal, effort)
    owner = whole
    if wishes.max_moves is not None:
        owner = cut(stated, whole, _may_wait(stated), wishes.max_moves)
    certificate = certified(
        stated,
        owner,
        bound,
        goal,
        exact=small is not None,
        cut=owner is not whole,
        spent=effort.spent,
    )
    return OptimalPlan(assignment=Assignment(owner), certificate=certificate)


def _may_wait(stated: Model) -> Bools:
    """By partition: its holder reads it and is not asked to give it up; that counts would like it elsewhere is no hurry."""
    claimed = np.flatnonzero(stated.taken & (stated.before >= 0))
    may = np.zeros(len(stated.reader_set), dtype=np.bool_)
    may[claimed] = stated.wanted[stated.reader_set[claimed], stated.kind[stated.before[claimed]]]
    return may
