"""The best plan of given loads: as many partitions near as can be, and of these plans one that keeps most.

Law: a plan is a flow from partitions to members, and no better one has equally even loads if and only if no circle of
hand-overs improves it: a member passes a partition to a second, that one passes another to a third, and so on back to the
first, or to a member with one fewer than the first. Circles are carried out until there is none.
Ties: what is found first; circles follow from the columns alone.
Cost: partitions of one audience in the same racks are one kind, readers of one audience in one rack share a seat, so a
relaxation looks at O(pairs of owner and kind + S) arcs; a handful of them finds the circles of a round, and LABOUR bounds all.
Source: cycle cancelling in residual graphs (Klein 1967), with Bellman and Ford's relaxation in columns.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.columns import (
    Bools,
    Ints,
    Longs,
    firsts,
)
from assignors.problem.group import Group
from assignors.problem.locality import rack_remote_at
from assignors.sticky.transfer_graph import Network

LABOUR = (
    300_000_000  # arcs looked at: about two seconds, which only the largest groups come near to
)
ARC_BITS = (
    24  # a distance and the arc that gives it share an integer, so that one minimum finds both
)
NOWHERE = -1
LOOK_EVERY = 3  # relaxations between two looks for circles
DOUBLINGS = 7  # steps back along the arcs before a look, as a power of two


def improve(
    group: Group, network: Network, owner: Ints, held: Ints, movable: Bools | None = None
) -> None:
    """Carry out the improving circles, in place; what is not movable stays."""
    if not (rack_remote_at(group, owner).any() or ((held >= 0) & (held != owner)).any()):
        return
    search = _Search(
        group, network, held, owner >= 0 if movable is None else movable & (owner >= 0)
    )
    labour = LABOUR
    while labour > 0 and (circles := search.circles(owner)):
        for circle in circles:
            for partition, taker in circle:
                owner[partition] = taker
        labour -= search.labour


@dataclass(slots=True)
class _Arcs:
    """Arcs ordered by the node that they enter."""

    tail: Longs
    cost: Longs
    partition: Longs  # what is handed over along it, -1 nothing
    begin: Longs  # the first arc into each entered node
    head: Longs  # the entered nodes

    @classmethod
    def of(cls, tail: Longs, head: Longs, cost: Longs, partition: Longs | None = None) -> "_Arcs":
        order = np.argsort(head, kind="stable")
        entered = head[order]
        begin = np.flatnonzero(np.diff(entered, prepend=-1))
        handed = np.full(len(tail), NOWHERE) if partition is None else partition[order]
        return cls(
            tail=tail[order], cost=cost[order], partition=handed, begin=begin, head=entered[begin]
        )


class _Search:
    """What hand-overs cost: a far partition weighs more than any number of moves.

    Nodes are the members, then the kinds, then the seats, then the loads that members have.
    """

    __slots__ = ("_cost", "_group", "_held", "_movable", "_network", "_seating", "labour")

    def __init__(self, group: Group, network: Network, held: Ints, movable: Bools) -> None:
        self._group, self._network, self._held, self._movable = group, network, held, movable
        members, kinds = len(group.members), len(network.far)
        self._cost = network.far * np.int64(
            4 * (members + 1)
        )  # by kind and rack, the unknown one last
        to_seats = _Arcs.of(
            tail=np.repeat(np.arange(kinds), network.width) + members,
            head=network.seats.ravel() + members + kinds,
            cost=self._cost.ravel(),
        )
        to_readers = _Arcs.of(
            tail=network.seat + members + kinds,
            head=network.sitting.astype(np.int64),
            cost=np.zeros(len(network.seat), dtype=np.int64),
        )
        self._seating = [to_seats, to_readers]
        self.labour = 0  # of the last search

    def _arcs(self, owner: Ints) -> list[_Arcs]:
        """Who can pass what, on which seats it would be taken, to whom it would return, and whose loads differ by one."""
        members, kinds, width = (
            len(self._group.members),
            len(self._network.far),
            self._network.width,
        )
        mine = np.flatnonzero(self._movable)
        giver, holder = owner[mine].astype(np.int64), self._held[mine].astype(np.int64)
        kind = self._network.kind[mine]
        there = self._cost[kind, self._group.member_rack[giver] % width]
        order = np.argsort(giver == holder, kind="stable")
        keys = giver * kinds + kind
        pair = order[firsts(keys[order], members * kinds)]  # one of each, best one that is not kept
        own = _Arcs.of(
            tail=giver[pair],
            head=kind[pair] + members,
            cost=(giver == holder)[pair] - there[pair],
            partition=mine[pair],
        )
        lost = np.flatnonzero((holder >= 0) & (holder != giver))
        home = self._cost[kind[lost], self._group.member_rack[holder[lost]] % width]
        back = _Arcs.of(
            tail=giver[lost], head=holder[lost], cost=home - there[lost] - 1, partition=mine[lost]
        )
        return [own, *self._seating, back, *self._loads(owner)]

    def _loads(self, owner: Ints) -> list[_Arcs]:
        """From each member to its load, and from each load to the members that have one more."""
        group = self._group
        count = np.bincount(owner[owner >= 0], minlength=len(group.members))
        first = len(group.members) + len(self._network.far) + len(self._network.seat_start) - 1
        there = np.bincount(count) > 0  # by load: somebody has it
        member = np.arange(len(count))
        lower = np.flatnonzero((count > 0) & there[count - 1])
        free = np.zeros(len(count), dtype=np.int64)
        return [
            _Arcs.of(tail=member, head=first + count, cost=free),
            _Arcs.of(tail=first + count[lower] - 1, head=lower, cost=free[lower]),
        ]

    def circles(self, owner: Ints) -> list[list[tuple[int, int]]]:
        """Improving circles that have nothing in common, each as partitions with their takers; none if there is none."""
        layers = [arcs for arcs in self._arcs(owner) if len(arcs.tail)]
        nodes = 1 + max((int(arcs.head[-1]) for arcs in layers), default=0)
        distance = np.zeros(nodes, dtype=np.int64)
        came = np.full(nodes, NOWHERE, dtype=np.int64)
        handed = np.full(nodes, NOWHERE, dtype=np.int64)
        self.labour = 0
        changed, relaxations = True, 0
        while changed:
            changed = False
            for arcs in layers:
                changed |= _relax(arcs, distance, came, handed)
                self.labour += len(arcs.tail)
            relaxations += 1
            if relaxations % LOOK_EVERY == 0 and (found := _circles(came)):
                return [self._steps(circle, handed) for circle in found]
        return []

    def _steps(self, circle: list[int], handed: Longs) -> list[tuple[int, int]]:
        """What is handed to whom along a circle, which is listed against its arcs."""
        members = len(self._group.members)
        first = next(place for place, node in enumerate(circle) if node < members)
        taker, steps = NOWHERE, []
        for node in circle[first:] + circle[:first]:
            taker = node if node < members else taker
            if handed[node] >= 0:
                steps.append((int(handed[node]), taker))
        return steps


def _relax(arcs: _Arcs, distance: Longs, came: Longs, handed: Longs) -> bool:
    """Shorten what is reached sooner along one of the arcs."""
    reached = ((distance[arcs.tail] + arcs.cost) << ARC_BITS) + np.arange(len(arcs.tail))
    least = np.minimum.reduceat(reached, arcs.begin)
    shorter = np.flatnonzero(least >> ARC_BITS < distance[arcs.head])
    if not len(shorter):
        return False
    head, arc = arcs.head[shorter], least[shorter] & ((1 << ARC_BITS) - 1)
    distance[head] = least[shorter] >> ARC_BITS
    came[head], handed[head] = arcs.tail[arc], arcs.partition[arc]
    return True


def _circles(came: Longs) -> list[list[int]]:
    """The circles of a graph in which each node came from one or from nowhere, against the arcs."""
    back = came.copy()
    for _ in range(DOUBLINGS):
        back = np.where(back < 0, NOWHERE, back[back])
    seen: set[int] = set()
    circles = []
    for start in np.unique(back[back >= 0]).tolist():
        node, walk = start, dict[int, None]()
        while node >= 0 and node not in seen and node not in walk:
            walk[node] = None
            node = int(came[node])
        seen.update(walk)
        if node in walk:
            listed = list(walk)
            circles.append(listed[listed.index(node) :])
    return circles
