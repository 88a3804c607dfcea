"""Maximum number of partitions with a reader in a replica's rack: a small transport problem.

Guarantees: exact. Partitions with replicas in the same racks are interchangeable, and so are
members in one rack; the problem therefore has a few classes and a few racks whatever the number of
partitions and members, and augmenting paths solve it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
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
    """Racks that each class may go to."""
    base: list[int]
    """Partitions that each rack takes without the pool."""
    extra: list[int]
    """Partitions that each rack takes beyond `base`, one from the pool for each."""
    pool: int
    """Partitions beyond `base` that all racks together may take."""

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
        for rack_class in range(len(self.supply)):
            while self.supply[rack_class] and (path := self._augmenting_path(flow, rack_class)):
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
            flow[rack_class][rack] = flow[rack_class].get(rack, 0) + amount
            previous = rack

    def _augmenting_path(
        self, flow: list[dict[int, int]], rack_class: int
    ) -> list[tuple[int, int]]:
        """Shortest path from a class to a rack with room, through classes that can be rerouted."""
        reached_from: dict[int, tuple[int, int | None]] = dict.fromkeys(
            self.racks[rack_class], (rack_class, None)
        )
        queue = deque(reached_from)
        while queue:
            rack = queue.popleft()
            if self._room(rack) > 0:
                return _path_to(reached_from, rack)
            for other, sent in enumerate(flow):
                if sent.get(rack, 0) > 0:
                    for onward in self.racks[other]:
                        if onward not in reached_from:
                            reached_from[onward] = (other, rack)
                            queue.append(onward)
        return []


def _path_to(reached_from: dict[int, tuple[int, int | None]], rack: int) -> list[tuple[int, int]]:
    """Steps (class, rack) from the class of the search to a rack."""
    path: list[tuple[int, int]] = []
    current: int | None = rack
    while current is not None:
        rack_class, previous = reached_from[current]
        path.append((rack_class, current))
        current = previous
    return path[::-1]
