"""No baseline is at least as good as `optimal` in all objectives and better in one.

A move has the price that it has in the daemon. Where moves are free, a plan that its work budget
ends may have made some of them for hundredths of a second of load.
"""

from itertools import product

import pytest

from levelwind.assignors.optimal import optimal_strategy
from levelwind.daemon.control.planning import MOVE_COST_SECONDS
from levelwind_testing.groups.dominance import LAGS, PlanFigures, answers, cases, plan_figures


def dominated(groups):
    """By case: the baselines whose plans beat the one of `optimal`."""
    beaten = {}
    for case in groups:
        plan = optimal_strategy(case.group, move_cost=MOVE_COST_SECONDS)
        optimal_figures = plan_figures(case.group, plan)
        better = [
            (name, baseline)
            for name, baseline in answers(case.group).items()
            if baseline.beats(optimal_figures)
        ]
        if better:
            beaten[str(case)] = optimal_figures, better
    return beaten


def test_a_plan_beats_another_only_if_no_figure_is_worse_and_one_is_better():
    plan = PlanFigures(1, 1.5, 0.25, 3)
    assert not plan.beats(plan)
    assert plan._replace(moved=2).beats(plan)
    assert not plan._replace(moved=2, load=1.6).beats(plan)


@pytest.mark.parametrize(("cell", "lags"), [("10x10x10", "uniform"), ("30x20x10", "pareto")])
def test_no_baseline_dominates_on_small_cells(cell, lags):
    assert dominated(cases([cell], lags=lags)) == {}


@pytest.mark.parametrize("racks", [0, 3])
def test_one_large_topic_is_dealt_as_evenly_as_by_load_alone(racks):
    assert dominated(cases(["100x1x10000"], ("all",), (racks,), "uniform")) == {}


IN_EACH_RUN = {
    *(("100x100x10", lags) for lags in LAGS),
    ("1000x100x100", "few"),
    ("1000x1000x10", "pareto"),
}
"""Cells of the grid that are in each run; the others take half a minute each."""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("cell", "lags"),
    [
        pytest.param(*case, marks=[] if case in IN_EACH_RUN else pytest.mark.rare)
        for case in product(("100x100x10", "1000x100x100", "1000x1000x10"), sorted(LAGS))
    ],
)
def test_no_baseline_dominates_on_the_grid(cell, lags):
    assert dominated(cases([cell], lags=lags)) == {}
