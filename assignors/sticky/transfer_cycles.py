"""The optimal plan of given loads: most partitions rack-local, and of these plans the fewest moves.

Guarantees: a plan is a flow from partitions to members. No better plan has equally even loads if
and only if no cycle of transfers improves it: a member passes a partition to a second, which passes
another to a third, and so on back to the first, or to a member with one fewer than the first.
Cycles are carried out until there is none.
Ties: the cycle that is found first; cycles depend on the columns alone.
Cost: with partition classes and reader classes, a relaxation visits O(pairs of owner and partition
class + S) arcs. A few relaxations find the cycles of a round, and MAX_ARC_VISITS bounds all rounds.
Source: cycle cancelling in residual graphs (Klein 1967), with Bellman and Ford's relaxation in
columns.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem.columns import Bools, Ints, Longs, firsts
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.locality import rack_remote_at
from levelwind.assignors.sticky.transfer_graph import TransferGraph

MAX_ARC_VISITS = 300_000_000
"""Arcs visited in all: about two seconds of work, which only the largest groups approach."""

ARC_BITS = 24
"""Low bits of an integer that hold an arc below its distance, so that one minimum finds both."""

NONE = -1
"""No node or no partition."""

RELAXATIONS_PER_CYCLE_SEARCH = 3

POINTER_DOUBLINGS = 7
"""Steps back along the parents before a search for cycles, as a power of two."""


def cancel_cycles(
    group: Group, graph: TransferGraph, owner: Ints, held: Ints, movable: Bools | None = None
) -> None:
    """Carry out improving cycles, in place; a partition that is not movable stays."""
    if not (rack_remote_at(group, owner).any() or ((held >= 0) & (held != owner)).any()):
        return
    search = _CycleSearch(
        group, graph, held, owner >= 0 if movable is None else movable & (owner >= 0)
    )
    remaining_visits = MAX_ARC_VISITS
    while remaining_visits > 0 and (cycles := search.improving_cycles(owner)):
        for cycle in cycles:
            for partition, taker in cycle:
                owner[partition] = taker
        remaining_visits -= search.arc_visits


@dataclass(slots=True)
class _ArcLayer:
    """Arcs ordered by the node that they enter."""

    tail: Longs
    """Node that each arc leaves."""
    cost: Longs
    """Cost of each arc; a cycle of negative cost improves the plan."""
    partition: Longs
    """Partition that is transferred along each arc, -1 for none."""
    begin: Longs
    """First arc into each entered node."""
    head: Longs
    """Entered nodes, ascending."""

    @classmethod
    def of(
        cls, tail: Longs, head: Longs, cost: Longs, partition: Longs | None = None
    ) -> "_ArcLayer":
        order = np.argsort(head, kind="stable")
        entered = head[order]
        begin = np.flatnonzero(np.diff(entered, prepend=-1))
        transferred = np.full(len(tail), NONE) if partition is None else partition[order]
        return cls(
            tail=tail[order],
            cost=cost[order],
            partition=transferred,
            begin=begin,
            head=entered[begin],
        )


class _CycleSearch:
    """Costs of transfers: one remote partition outweighs any number of moves.

    Nodes are the members, then the partition classes, then the reader classes, then the loads.
    """

    __slots__ = ("_cost", "_fixed_layers", "_graph", "_group", "_held", "_movable", "arc_visits")

    def __init__(self, group: Group, graph: TransferGraph, held: Ints, movable: Bools) -> None:
        self._group, self._graph, self._held, self._movable = group, graph, held, movable
        members, partition_classes = len(group.members), len(graph.rack_remote)
        # By partition class and rack, the unknown rack last.
        self._cost = graph.rack_remote * np.int64(4 * (members + 1))
        to_reader_classes = _ArcLayer.of(
            tail=np.repeat(np.arange(partition_classes), graph.width) + members,
            head=graph.reader_classes.ravel() + members + partition_classes,
            cost=self._cost.ravel(),
        )
        to_readers = _ArcLayer.of(
            tail=graph.reader_class + members + partition_classes,
            head=graph.reader.astype(np.int64),
            cost=np.zeros(len(graph.reader_class), dtype=np.int64),
        )
        self._fixed_layers = [to_reader_classes, to_readers]
        self.arc_visits = 0  # by the last search

    def _layers(self, owner: Ints) -> list[_ArcLayer]:
        """Arcs of the residual graph of a plan.

        Givers reach the classes of their partitions, and classes reach readers through reader
        classes; givers reach former holders directly; through its load a member reaches the members
        with one partition more.
        """
        members, partition_classes, width = (
            len(self._group.members),
            len(self._graph.rack_remote),
            self._graph.width,
        )
        movable = np.flatnonzero(self._movable)
        giver, holder = owner[movable].astype(np.int64), self._held[movable].astype(np.int64)
        partition_class = self._graph.partition_class[movable]
        cost_at_giver = self._cost[partition_class, self._group.member_rack[giver] % width]
        order = np.argsort(giver == holder, kind="stable")
        keys = giver * partition_classes + partition_class
        # One partition of each giver and class, preferably one that its giver did not hold before.
        best = order[firsts(keys[order], members * partition_classes)]
        gives = _ArcLayer.of(
            tail=giver[best],
            head=partition_class[best] + members,
            cost=(giver == holder)[best] - cost_at_giver[best],
            partition=movable[best],
        )
        displaced = np.flatnonzero((holder >= 0) & (holder != giver))
        cost_at_holder = self._cost[
            partition_class[displaced], self._group.member_rack[holder[displaced]] % width
        ]
        returns = _ArcLayer.of(
            tail=giver[displaced],
            head=holder[displaced],
            cost=cost_at_holder - cost_at_giver[displaced] - 1,
            partition=movable[displaced],
        )
        return [gives, *self._fixed_layers, returns, *self._load_layers(owner)]

    def _load_layers(self, owner: Ints) -> list[_ArcLayer]:
        """Arcs from each member to its load, and from each load to members that have one more."""
        group = self._group
        count = np.bincount(owner[owner >= 0], minlength=len(group.members))
        first = (
            len(group.members)
            + len(self._graph.rack_remote)
            + len(self._graph.reader_class_start)
            - 1
        )
        load_occurs = np.bincount(count) > 0  # by load
        member = np.arange(len(count))
        lower = np.flatnonzero((count > 0) & load_occurs[count - 1])
        free = np.zeros(len(count), dtype=np.int64)
        return [
            _ArcLayer.of(tail=member, head=first + count, cost=free),
            _ArcLayer.of(tail=first + count[lower] - 1, head=lower, cost=free[lower]),
        ]

    def improving_cycles(self, owner: Ints) -> list[list[tuple[int, int]]]:
        """Disjoint improving cycles, each as pairs of a partition and its taker."""
        layers = [arcs for arcs in self._layers(owner) if len(arcs.tail)]
        nodes = 1 + max((int(arcs.head[-1]) for arcs in layers), default=0)
        distance = np.zeros(nodes, dtype=np.int64)
        parent = np.full(nodes, NONE, dtype=np.int64)
        transferred = np.full(nodes, NONE, dtype=np.int64)
        self.arc_visits = 0
        changed, relaxations = True, 0
        while changed:
            changed = False
            for arcs in layers:
                changed |= _relax(arcs, distance, parent, transferred)
                self.arc_visits += len(arcs.tail)
            relaxations += 1
            if relaxations % RELAXATIONS_PER_CYCLE_SEARCH == 0 and (found := _find_cycles(parent)):
                return [self._transfers(cycle, transferred) for cycle in found]
        return []

    def _transfers(self, cycle: list[int], transferred: Longs) -> list[tuple[int, int]]:
        """Partitions and their takers along a cycle, which is listed against its arcs."""
        members = len(self._group.members)
        first = next(index for index, node in enumerate(cycle) if node < members)
        taker, transfers = NONE, []
        for node in cycle[first:] + cycle[:first]:
            taker = node if node < members else taker
            if transferred[node] >= 0:
                transfers.append((int(transferred[node]), taker))
        return transfers


def _relax(arcs: _ArcLayer, distance: Longs, parent: Longs, transferred: Longs) -> bool:
    """Shorten distances along the arcs; return whether any became shorter."""
    candidate = ((distance[arcs.tail] + arcs.cost) << ARC_BITS) + np.arange(len(arcs.tail))
    least = np.minimum.reduceat(candidate, arcs.begin)
    shorter = np.flatnonzero(least >> ARC_BITS < distance[arcs.head])
    if not len(shorter):
        return False
    head, arc = arcs.head[shorter], least[shorter] & ((1 << ARC_BITS) - 1)
    distance[head] = least[shorter] >> ARC_BITS
    parent[head], transferred[head] = arcs.tail[arc], arcs.partition[arc]
    return True


def _find_cycles(parent: Longs) -> list[list[int]]:
    """Cycles of a graph where each node has one parent at most, from node to parent."""
    ancestor = parent.copy()
    for _ in range(POINTER_DOUBLINGS):
        ancestor = np.where(ancestor < 0, NONE, ancestor[ancestor])
    seen: set[int] = set()
    cycles = []
    for start in np.unique(ancestor[ancestor >= 0]).tolist():
        node, walk = start, dict[int, None]()
        while node >= 0 and node not in seen and node not in walk:
            walk[node] = None
            node = int(parent[node])
        seen.update(walk)
        if node in walk:
            listed = list(walk)
            cycles.append(listed[listed.index(node) :])
    return cycles
