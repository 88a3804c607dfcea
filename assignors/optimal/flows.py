"""OR-tools' flows, and the only place that imports them.

Law: whole numbers in and out, exact. The library is wanted only when a flow is: groups of one rack and one subscription do
without it.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from assignors.columns import Bools, Longs

UNLIMITED = 2**40


class SolverMissingError(RuntimeError):
    """OR-tools is not installed here."""

    def __init__(self) -> None:
        super().__init__("strategy optimal needs OR-tools for this group: install levelwind[solver]")


@dataclass(frozen=True, slots=True)
class Arcs:
    """Arcs of a network, a column each."""

    tail: Longs
    head: Longs
    capacity: Longs
    cost: Longs | None = None


def joined(*parts: Arcs) -> Arcs:
    """Several arcs' columns as one; where one has no cost it is free."""
    return Arcs(
        np.concatenate([part.tail for part in parts]),
        np.concatenate([part.head for part in parts]),
        np.concatenate([part.capacity for part in parts]),
        np.concatenate(
            [part.cost if part.cost is not None else np.zeros(len(part.tail), np.int64) for part in parts]
        ),
    )


def cheapest(arcs: Arcs, supply: Longs) -> Longs:
    """The flow on each arc that meets all supplies (below 0: demands) at the least cost.

    Raises:
        SolverMissingError: OR-tools is not installed.
        RuntimeError: there is no such flow; a bug, since counts are made feasible before.
    """
    solver = _solver("min_cost_flow").SimpleMinCostFlow()
    lines = solver.add_arcs_with_capacity_and_unit_cost(arcs.tail, arcs.head, arcs.capacity, arcs.cost)
    solver.set_nodes_supplies(np.arange(len(supply)), supply)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise RuntimeError(f"no flow meets the counts: {status}")
    return np.asarray(solver.flows(lines), dtype=np.int64)


def fullest(arcs: Arcs, source: int, sink: int) -> tuple[int, Bools]:
    """The largest flow from source to sink, and which nodes are on the source's side of the least cut.

    Raises:
        SolverMissingError: OR-tools is not installed.
        RuntimeError: the library gives no answer; a bug.
    """
    solver = _solver("max_flow").SimpleMaxFlow()
    solver.add_arcs_with_capacity(arcs.tail, arcs.head, arcs.capacity)
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise RuntimeError(f"no largest flow: {status}")
    side = np.zeros(int(max(arcs.tail.max(), arcs.head.max(), source, sink)) + 1, dtype=np.bool_)
    side[np.asarray(solver.get_source_side_min_cut(), dtype=np.int64)] = True
    return int(solver.optimal_flow()), side


def _solver(name: str) -> Any:
    try:
        return import_module(f"ortools.graph.python.{name}")
    except ImportError as missing:
        raise SolverMissingError from missing
