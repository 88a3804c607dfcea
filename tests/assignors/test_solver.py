import sys

import numpy as np
import pytest

from levelwind.assignors.solver import (
    MAX_COST,
    Arcs,
    SolverMissingError,
    concat_arcs,
    max_flow,
    min_cost_flow,
)


def arcs(*rows):
    return Arcs(*np.array(rows, dtype=np.int64).T)


TWO_WAYS = arcs((0, 1, 3, 5), (0, 2, 2, 1), (2, 1, 9, 1))  # tail, head, capacity, cost


def test_what_is_cheap_is_filled_first():
    assert min_cost_flow(TWO_WAYS, np.array([4, -4, 0])).tolist() == [2, 2, 2]


def test_what_nothing_can_carry_has_no_flow():
    assert min_cost_flow(TWO_WAYS, np.array([6, -6, 0])) is None


def test_arcs_without_costs_are_free_beside_others():
    free = Arcs(TWO_WAYS.tail, TWO_WAYS.head, TWO_WAYS.capacity)
    assert sum(min_cost_flow(free, np.array([5, -5, 0])).tolist()[:2]) == 5
    both = concat_arcs(TWO_WAYS, Arcs(np.array([0]), np.array([1]), np.array([1])))
    assert both.cost.tolist() == [5, 1, 1, 0]
    assert min_cost_flow(both, np.array([1, -1, 0])).tolist() == [0, 0, 0, 1]


def test_the_largest_flow_comes_with_the_side_of_the_cut_that_the_source_is_on():
    flow, side = max_flow(arcs((0, 2, 9, 0), (2, 3, 2, 0), (3, 1, 9, 0)), 0, 1)
    assert (flow, side.tolist()) == (2, [True, False, True, False])


def test_costs_that_sixty_four_bits_do_not_hold_are_refused():
    for cost in (
        MAX_COST // 4,
        MAX_COST // 4 - 1,
    ):  # one that we refuse, and one that the library does
        with pytest.raises(OverflowError, match="over 3 nodes"):
            min_cost_flow(arcs((0, 1, 3, cost)), np.array([1, -1, 0]))
    assert min_cost_flow(arcs((0, 1, 3, MAX_COST // 64)), np.array([1, -1, 0])).tolist() == [1]


@pytest.mark.parametrize("name", ["min_cost_flow", "max_flow"])
def test_a_solver_that_is_not_installed_is_named_with_the_extra_that_brings_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, f"ortools.graph.python.{name}", None)
    with pytest.raises(
        SolverMissingError, match=r"OR-tools.*not installed; install levelwind\[solver\]"
    ):
        min_cost_flow(TWO_WAYS, np.array([4, -4, 0])) if name == "min_cost_flow" else max_flow(
            TWO_WAYS, 0, 1
        )
