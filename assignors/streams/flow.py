"""Exact flows of least cost; the one place that knows the solver.

Source: OR-tools' `SimpleMinCostFlow` (cost-scaling push-relabel, Goldberg 1997). It is installed with
`levelwind[solver]`, and imported when a flow is first asked for.
Cost: O(n² m log(n C)) at worst for n nodes, m arcs and costs up to C; near linear in m here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from assignors.columns import Longs
from assignors.intake import ProblemError

MAX_COST = 2**62  # of a unit times the nodes: the solver's costs are 64 bits wide


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arcs:
    """Arcs, in columns."""

    tail: Longs
    head: Longs
    capacity: Longs
    cost: Longs


def cheapest(arcs: Arcs, supply: Longs) -> Longs | None:
    """The flow on each arc that carries all supply at the least cost; None where nothing can carry it.

    Raises:
        ProblemError: the solver is not installed, or the costs are too large for it.
    """
    if int(np.abs(arcs.cost).max(initial=0)) * (len(supply) + 1) >= MAX_COST:
        raise ProblemError("options traffic_cost, non_overlap_cost: too large for so many tasks; lower them")
    solver = _solver()
    flow = solver.SimpleMinCostFlow()
    flow.add_arcs_with_capacity_and_unit_cost(arcs.tail, arcs.head, arcs.capacity, arcs.cost)
    flow.set_nodes_supplies(np.arange(len(supply)), supply)
    status = flow.solve()
    if status == flow.INFEASIBLE:
        return None
    if status != flow.OPTIMAL:
        raise RuntimeError(f"the flow solver gave up: {status}")
    found: Longs = flow.flows(np.arange(len(arcs.tail)))
    return found


def _solver() -> Any:
    try:
        from ortools.graph.python import min_cost_flow  # noqa: PLC0415  an extra, wanted by few
    except ImportError as missing:
        raise ProblemError(
            "strategy 'streams': needs OR-tools, which is not installed; install levelwind[solver]"
        ) from missing
    return min_cost_flow
