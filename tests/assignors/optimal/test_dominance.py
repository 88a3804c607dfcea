"""No baseline is at least as good as `optimal` in all respects and better in one."""

import pytest

from assignors.optimal import optimal_strategy
from levelwind_testing.groups.dominance import (
    LAGS,
    PlanFigures,
    answers,
    cases,
    plan_figures,
)


def dominated(found):
    """By case: the baselines whose plans beat ours."""
    beaten = {}
    for case in found:
        ours = plan_figures(case.group, optimal_strategy(case.group))
        better = [
            (name, baseline)
            for name, baseline in answers(case.group).items()
            if baseline.beats(ours)
        ]
        if better:
            beaten[str(case)] = ours, better
    return beaten


def test_what_is_no_better_in_anything_or_worse_in_one_thing_beats_nothing():
    plan = PlanFigures(1, 1.5, 0.25, 3)
    assert not plan.beats(plan)
    assert plan._replace(moved=2).beats(plan)
    assert not plan._replace(moved=2, load=1.6).beats(plan)


@pytest.mark.parametrize(("cell", "lags"), [("10x10x10", "uniform"), ("30x20x10", "pareto")])
def test_nobody_is_better_at_once_on_small_cells(cell, lags):
    assert dominated(cases([cell], lags=lags)) == {}


@pytest.mark.parametrize("racks", [0, 3])
def test_one_large_topic_is_dealt_as_evenly_as_by_who_looks_at_load_alone(racks):
    assert dominated(cases(["100x1x10000"], ("all",), (racks,), "uniform")) == {}


@pytest.mark.integration
@pytest.mark.parametrize("lags", sorted(LAGS))
@pytest.mark.parametrize("cell", ["100x100x10", "1000x100x100", "1000x1000x10"])
def test_nobody_is_better_at_once_on_the_grid(cell, lags):
    assert dominated(cases([cell], lags=lags)) == {}
