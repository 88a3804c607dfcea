"""Maximum number of partitions with a reader in a replica's rack: a small transport problem.

Guarantees: exact. Partitions with replicas in the same racks are interchangeable, and so are
members in one rack; augmenting paths between the racks solve the problem.
Cost: O(racks²) a path, however many classes there are; at most one search for each rack fails.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from levelwind.assignors.problem.columns import Bools, Longs
from levelwind.assignors.problem.group import Group


def rack_classes(group: Group, partitions: Longs, useful: Bools) -> tuple[Longs, list[list[int]]]:
    """Class of each given partition, and the racks of each class.

    Partitions are of one class if they have replicas in the same useful racks.
    """
    useful_racks = [
        tuple(np.flatnonzero(row).tolist()) for row in group.rack_local[:, :-1] & useful
    ]
    class_number = {racks: index for index, racks in enumerate(sorted(set(useful_racks)))}
    rack_class = np.array([class_number[racks] for racks in useful_racks], dtype=np.int64)
    return rack_class[group.rack_set[partitions]], [list(racks) for racks in class_number]


@dataclass(slots=True)
class RackFlow:
    """Number of partitions of each class that go to each rack.

    A rack takes `base[r]` partitions, and up to `extra[r]` more while the shared `pool` lasts.
    """

    supply: list[int]
    """Partitions of each class that are still to be placed."""
    racks: Sequence[Sequence[int]]
    """Racks that each class may go to, ascending."""
    base: list[int]
    """Partitions that each rack takes without the pool."""
    extra: list[int]
    """Partitions that each rack takes beyond `base`, one from the pool for each."""
    pool: int
    """Partitions beyond `base` that all racks together may take."""
    _reroutable: list[dict[int, list[int]]] = field(init=False)
    """Heaps by rack and other rack: the classes with flow to the first that may go to the second,
    and classes whose flow has ended since."""

    def __post_init__(self) -> None:
        self._reroutable = [{} for _ in self.base]

    def solve(self) -> list[dict[int, int]]:
        """Flow of each class by rack: the maximum in total, with the minimum from the pool."""
        flow: list[dict[int, int]] = [{} for _ in self.supply]
        pool, self.pool = self.pool, 0
        self._fill_racks(flow)
        self.pool = pool
        self._fill_racks(flow)
        return flow

    def _fill_racks(self, flow: list[dict[int, int]]) -> None:
        """Augment the flow until no class has a path to a rack with room."""
        for rack_class in sorted(range(len(self.supply)), key=lambda k: len(self.racks[k])):
            for rack in self.racks[rack_class]:
                self._push_flow(flow, [(rack_class, rack)], self.supply[rack_class])
        closed: set[int] = set()
        for rack_class in range(len(self.supply)):
            while self.supply[rack_class] and (
                path := self._augmenting_path(flow, rack_class, closed)
            ):
                self._push_flow(
                    flow, path, min([self.supply[rack_class], *self._rerouted(flow, path)])
                )

    def _room(self, rack: int) -> int:
        return self.base[rack] + min(self.extra[rack], self.pool)

    @staticmethod
    def _rerouted(flow: list[dict[int, int]], path: list[tuple[int, int]]) -> list[int]:
        """Flow that each later step of a path can give up."""
        return [flow[rack_class][previous] for (_, previous), (rack_class, _) in pairwise(path)]

    def _push_flow(
        self, flow: list[dict[int, int]], path: list[tuple[int, int]], amount: int
    ) -> None:
        """Push flow along steps (class, rack); each class leaves the rack of the step before."""
        last = path[-1][1]
        amount = min(amount, self._room(last))
        if amount <= 0:
            return
        from_base = min(self.base[last], amount)
        self.base[last] -= from_base
        self.extra[last] -= amount - from_base
        self.pool -= amount - from_base
        self.supply[path[0][0]] -= amount
        previous = None
        for rack_class, rack in path:
            if previous is not None:
                flow[rack_class][previous] -= amount
            sent = flow[rack_class].get(rack, 0)
            flow[rack_class][rack] = sent + amount
            if not sent:
                for onward in self.racks[rack_class]:
                    if onward != rack:
                        heappush(self._reroutable[rack].setdefault(onward, []), rack_class)
            previous = rack

    def _augmenting_path(
        self, flow: list[dict[int, int]], rack_class: int, closed: set[int]
    ) -> list[tuple[int, int]]:
        """Shortest path from a class to a rack with room, through classes that can be rerouted.

        Racks from which no path leads to one with room are added to `closed`: no later flow opens
        such a path, since nothing that is in these racks can go to any other.
        """
        reached_from: dict[int, tuple[int, int | None]] = {
            rack: (rack_class, None) for rack in self.racks[rack_class] if rack not in closed
        }
        queue = deque(reached_from)
        while queue:
            rack = queue.popleft()
            if self._room(rack) > 0:
                return _path_to(reached_from, rack)
            steps = [
                (classes[0], onward)
                for onward, classes in self._reroutable[rack].items()
                if onward not in reached_from
                and onward not in closed
                and _drop_ended(classes, flow, rack)
            ]
            for other, onward in sorted(steps):
                reached_from[onward] = (other, rack)
                queue.append(onward)
        closed.update(reached_from)
        return []


def _drop_ended(classes: list[int], flow: list[dict[int, int]], rack: int) -> bool:
    """Take classes without flow to a rack off a heap; return whether one with flow is left."""
    while classes and not flow[classes[0]][rack]:
        heappop(classes)
    return bool(classes)


def _path_to(reached_from: dict[int, tuple[int, int | None]], rack: int) -> list[tuple[int, int]]:
    """Steps (class, rack) from the class of the search to a rack."""
    path: list[tuple[int, int]] = []
    current: int | None = rack
    while current is not None:
        rack_class, previous = reached_from[current]
        path.append((rack_class, current))
        current = previous
    return path[::-1]
