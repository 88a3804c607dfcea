"""`optimal`: lag, racks, balance and stability in one plan, with a certificate.

Source: the order of objectives is this project's own; the modules beside this one cite the source
of each part.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from levelwind.assignors.optimal.certificate import Certificate, certify
from levelwind.assignors.optimal.model.model import Model, build_model
from levelwind.assignors.optimal.model.plan_options import Options
from levelwind.assignors.optimal.model.work_budget import ClockCuts, WorkBudget
from levelwind.assignors.optimal.slack_search import choose_slack
from levelwind.assignors.optimal.truncate import truncate
from levelwind.assignors.optimal.within_limits import plan_within_limits
from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.columns import Bools
from levelwind.assignors.problem.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalPlan:
    """An assignment and its certificate."""

    assignment: Assignment
    """The owners, as `optimal_strategy` returns them."""
    certificate: Certificate
    """Values and bounds of the objectives for these owners."""


def optimal_strategy(group: Group, **options: Any) -> Assignment:
    """Return the owners that are best in these objectives, in this order.

    Guarantees: 1. every partition that has a reader is assigned, and pins, drains and evacuations
    hold; 2. the largest load, the time to drain of the most loaded member in seconds, is within
    `load_tolerance` of what no plan can beat, or of the best one found where none is that close; 3.
    within that, the cross-rack cost is lowest; 4. within that, the loads below the largest are
    level: after the largest load the next one counts, and so on, each within `load_tolerance` of
    the one of its rank in the most level plan (`levelwind.assignors.optimal.model.load_limits`
    states the law); 5. within that, the fewest partitions move; 6. within that, counts are as even
    as can be; 7. within that, the partitions of one topic are spread over members, as far as what
    moves anyway can be exchanged. In groups that are too large to compare every plan, 4. is reached
    as far as single moves and exchanges lead. Counts depart from the most even ones only as far as
    load needs (or twice as far, to keep partitions where they are), and at most by `count_slack`;
    not at all where nothing is known of load, or with `counts="even"`. An assignment that is this
    answer already is returned unchanged: nothing moves where nothing changed, unless `max_moves`
    truncated the plan before. Load comes before moves: when a member leaves and its partitions fit
    no other member within the tolerance, other members pass on some of theirs; the certificate
    states how many must at least.
    Ties: partitions and members by number.
    Cost: O(P log P) for P partitions, and refinement within a fixed amount of work, which
    `time_budget` may cut.

    Raises:
        ProblemError: an option has the wrong shape.
        SolverMissingError: the group needs flows, and OR-tools is not installed.
    """
    return optimal_plan(group, **options).assignment


def optimal_plan(
    group: Group, *, clock_cuts: ClockCuts | None = None, **options: Any
) -> OptimalPlan:
    """Return the plan of `optimal_strategy` with its certificate.

    Args:
        group: the problem.
        clock_cuts: where the clock cut an earlier search, to repeat it; empty: nothing is cut, and
            the same work is done, however long it takes. None: the clock cuts where a machine is
            too slow.
        options: options of `optimal`.

    Raises:
        ProblemError: an option has the wrong shape.
        SolverMissingError: the group needs flows, and OR-tools is not installed.
    """
    chosen = Options.from_mapping(options)
    budget = WorkBudget.of_seconds(chosen.time_budget, clock_cuts=clock_cuts)
    choice = choose_slack(build_model(group, chosen), budget)
    model, planned = choice.repair_model, plan_within_limits(choice, budget)
    full_plan = planned.owner
    owner = full_plan
    if chosen.max_moves is not None:
        owner = truncate(model, full_plan, _deferrable(model), chosen.max_moves)
    certificate = certify(
        model,
        owner,
        choice.bound,
        choice.target,
        planned,
        truncated=owner is not full_plan,
        exhausted=budget.exhausted,
        clock_cuts=budget.clock_cuts,
    )
    return OptimalPlan(assignment=Assignment(owner), certificate=certificate)


def _deferrable(model: Model) -> Bools:
    """P: whether the move of the partition may wait.

    Its current owner reads it and is neither drained nor evacuated; uneven counts alone are not
    urgent.
    """
    claimed = np.flatnonzero(model.assignable & (model.current_owner >= 0))
    deferrable = np.zeros(len(model.reader_set), dtype=np.bool_)
    deferrable[claimed] = model.eligible[
        model.reader_set[claimed], model.member_class[model.current_owner[claimed]]
    ]
    return deferrable
