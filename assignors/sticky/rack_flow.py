"""As many partitions as can be had in their readers' racks: a small transport problem.

Law: partitions with replicas in the same racks are interchangeable, and so are members in one rack, so the problem is one of
a few classes and a few racks, solved exactly by augmenting paths whatever the number of partitions and members.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assignors.problem.columns import (
    Bools,
    Longs,
)
from assignors.problem.group import Group


def classes(group: Group, partitions: Longs, useful: Bools) -> tuple[Longs, list[list[int]]]:
    """The class of each of some partitions, and the racks of each class; racks that are not useful do not tell apart."""
    told = [tuple(np.flatnonzero(row).tolist()) for row in group.rack_local[:, :-1] & useful]
    number = {racks: index for index, racks in enumerate(sorted(set(told)))}
    kind = np.array([number[racks] for racks in told], dtype=np.int64)
    return kind[group.rack_set[partitions]], [list(racks) for racks in number]


@dataclass(slots=True)
class Transport:
    """How many of each class go to each rack.

    A rack takes `base[r]` of its own and up to `extra[r]` more while the `pool` that all racks share lasts.
    """

    supply: list[int]  # by class
    racks: Sequence[Sequence[int]]  # by class: the racks that it may go to
    base: list[int]  # by rack
    extra: list[int]  # by rack
    pool: int

    def solve(self) -> list[dict[int, int]]:
        """By class: how many go to which rack; as many in all as can be, and as few of them from the pool."""
        flow: list[dict[int, int]] = [{} for _ in self.supply]
        pool, self.pool = self.pool, 0
        self._fill(flow)
        self.pool = pool
        self._fill(flow)
        return flow

    def _fill(self, flow: list[dict[int, int]]) -> None:
        for kind in sorted(range(len(self.supply)), key=lambda k: len(self.racks[k])):
            for rack in self.racks[kind]:
                self._push(flow, [(kind, rack)], self.supply[kind])
        for kind in range(len(self.supply)):
            while self.supply[kind] and (path := self._path(flow, kind)):
                self._push(flow, path, min([self.supply[kind], *self._rerouted(flow, path)]))

    def _room(self, rack: int) -> int:
        return self.base[rack] + min(self.extra[rack], self.pool)

    @staticmethod
    def _rerouted(flow: list[dict[int, int]], path: list[tuple[int, int]]) -> list[int]:
        return [flow[kind][before] for (_, before), (kind, _) in pairwise(path)]

    def _push(self, flow: list[dict[int, int]], path: list[tuple[int, int]], amount: int) -> None:
        """Along (class, rack) steps: each class after the first leaves the rack that the step before enters."""
        last = path[-1][1]
        amount = min(amount, self._room(last))
        if amount <= 0:
            return
        own = min(self.base[last], amount)
        self.base[last] -= own
        self.extra[last] -= amount - own
        self.pool -= amount - own
        self.supply[path[0][0]] -= amount
        before = None
        for kind, rack in path:
            if before is not None:
                flow[kind][before] -= amount
            flow[kind][rack] = flow[kind].get(rack, 0) + amount
            before = rack

    def _path(self, flow: list[dict[int, int]], kind: int) -> list[tuple[int, int]]:
        """The shortest way from a class to a rack with room, by sending others elsewhere."""
        came: dict[int, tuple[int, int | None]] = dict.fromkeys(self.racks[kind], (kind, None))
        queue = deque(came)
        while queue:
            rack = queue.popleft()
            if self._room(rack) > 0:
                return _back(came, rack)
            for other, sent in enumerate(flow):
                if sent.get(rack, 0) > 0:
                    for onward in self.racks[other]:
                        if onward not in came:
                            came[onward] = (other, rack)
                            queue.append(onward)
        return []


def _back(came: dict[int, tuple[int, int | None]], rack: int) -> list[tuple[int, int]]:
    path: list[tuple[int, int]] = []
    here: int | None = rack
    while here is not None:
        kind, before = came[here]
        path.append((kind, here))
        here = before
    return path[::-1]
