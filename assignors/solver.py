"""Network flows of OR-tools, which only this module imports.

Guarantees: integers in and out, exact, and the same answer to the same arcs in the same order.
Source: OR-tools' `SimpleMinCostFlow` (cost-scaling push-relabel, Goldberg 1997) and
`SimpleMaxFlow`. Both are installed with `levelwind[solver]` and imported on the first flow: groups
of one rack and one subscription need none.
Cost: O(n² m log(n C)) at worst for n nodes, m arcs and costs up to C; near linear in m here.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from levelwind.assignors.problem.columns import Bools, Longs

UNLIMITED = 2**40
"""Capacity of an arc that limits nothing."""

MAX_COST = 2**62
"""Bound on a unit's cost times the number of nodes: the solver's costs are 64 bits wide."""


class SolverMissingError(RuntimeError):
    """OR-tools is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "this group needs OR-tools, which is not installed; install levelwind[solver]"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Arcs:
    """Arcs of a network, one column for each of their properties."""

    tail: Longs
    """Node that each arc leaves."""
    head: Longs
    """Node that each arc enters."""
    capacity: Longs
    """Largest flow on each arc."""
    cost: Longs | None = None
    """Cost of one unit of flow on each arc; None where all arcs are free."""


def concat_arcs(*parts: Arcs) -> Arcs:
    """Concatenate arcs; arcs without a cost column are free."""
    return Arcs(
        np.concatenate([part.tail for part in parts]),
        np.concatenate([part.head for part in parts]),
        np.concatenate([part.capacity for part in parts]),
        np.concatenate([_cost(part) for part in parts]),
    )


def min_cost_flow(arcs: Arcs, supply: Longs) -> Longs | None:
    """Compute the flow on each arc that meets all supplies at the least cost.

    A supply below 0 is a demand. The answer is None where no flow meets the supplies.

    Raises:
        SolverMissingError: OR-tools is not installed.
        OverflowError: the costs are too large for so many nodes.
        RuntimeError: OR-tools gives no answer, which is a bug.
    """
    cost = _cost(arcs)
    if int(np.abs(cost).max(initial=0)) * (len(supply) + 1) >= MAX_COST:
        raise _too_large(cost, supply)
    solver = _solver("min_cost_flow").SimpleMinCostFlow()
    lines = solver.add_arcs_with_capacity_and_unit_cost(arcs.tail, arcs.head, arcs.capacity, cost)
    solver.set_nodes_supplies(np.arange(len(supply)), supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status == solver.BAD_COST_RANGE:
        raise _too_large(cost, supply)
    if status != solver.OPTIMAL:
        raise RuntimeError(f"no flow of least cost: {status}")
    return np.asarray(solver.flows(lines), dtype=np.int64)


def max_flow(arcs: Arcs, source: int, sink: int) -> tuple[int, Bools]:
    """Compute the largest flow, and which nodes are on the source's side of the least cut.

    Raises:
        SolverMissingError: OR-tools is not installed.
        RuntimeError: OR-tools gives no answer, which is a bug.
    """
    solver = _solver("max_flow").SimpleMaxFlow()
    solver.add_arcs_with_capacity(arcs.tail, arcs.head, arcs.capacity)
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise RuntimeError(f"no largest flow: {status}")
    side = np.zeros(int(max(arcs.tail.max(), arcs.head.max(), source, sink)) + 1, dtype=np.bool_)
    side[np.asarray(solver.get_source_side_min_cut(), dtype=np.int64)] = True
    return int(solver.optimal_flow()), side


def _cost(arcs: Arcs) -> Longs:
    return arcs.cost if arcs.cost is not None else np.zeros(len(arcs.tail), dtype=np.int64)


def _too_large(cost: Longs, supply: Longs) -> OverflowError:
    return OverflowError(f"costs up to {int(np.abs(cost).max())} over {len(supply)} nodes")


def _solver(name: str) -> Any:
    try:
        return import_module(f"ortools.graph.python.{name}")
    except ImportError as missing:
        raise SolverMissingError from missing
