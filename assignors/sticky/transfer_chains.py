"""Bring far partitions near along chains of hand-overs, without a change of the loads.

Law: what is far is taken up, which leaves a place: at its owner, or at any member that has as many partitions now. Each goes to
a near reader with a place, or to one that passes a partition of its own on to a reader near to that, and so on to a place. What finds no such chain goes back, or along a chain
that is not near. In a phase all the shortest chains are carried out that do not hinder each other (Dinic's maximum flow).
Cost: O(S + P log P) a phase and a little for each chain; there are seldom more than a few phases.
"""

import numpy as np

from assignors.problem.assignment import NOBODY
from assignors.problem.columns import (
    Bools,
    Ints,
    Longs,
    distinct,
    within,
)
from assignors.problem.group import Group
from assignors.problem.locality import rack_remote_at
from assignors.sticky.member_stacks import Piles
from assignors.sticky.transfer_graph import Network

LONGEST = 24  # hand-overs in a chain: what is still far then is left to the search for circles


def bring_near(group: Group, network: Network, owner: Ints, held: Ints) -> None:
    """Improve the locality of the owners in place."""
    far = np.flatnonzero(rack_remote_at(group, owner))
    if not len(far):
        return
    desk = _Desk(network, owner.copy(), held, far)
    while desk.phase(~network.far, claims_stay=True) or desk.phase(~network.far):
        pass
    desk.put_back()
    while desk.phase(np.ones_like(network.far)):
        pass
    if not desk.up:
        owner[:] = desk.owner


class _Desk:
    """The partitions that are taken up, and the places that they left."""

    __slots__ = ("_before", "_network", "count", "held", "left", "owner", "piles", "up")

    def __init__(self, network: Network, owner: Ints, held: Ints, partitions: Longs) -> None:
        self._network, self.owner, self.held = network, owner, held
        self.up = partitions.tolist()
        self._before = owner[partitions].tolist()
        members = int(network.sitting.max()) + 1
        loads = np.bincount(owner[owner >= 0], minlength=members)
        owner[partitions] = NOBODY
        self.count = np.bincount(owner[owner >= 0], minlength=members)
        self.left = np.zeros(
            int(loads.max()) + 2, dtype=np.int64
        )  # by load: members that may have it again
        highest = np.repeat(loads, loads - self.count)
        np.add.at(self.left, highest - within(loads - self.count), 1)
        self.piles = Piles(owner, held, network.kind, members)

    def takes(self, member: int) -> bool:
        """Take a place of a member, if it has one."""
        load = self.count[member] + 1
        if not self.left[load]:
            return False
        self.left[load] -= 1
        self.count[member] = load
        return True

    def put_back(self) -> None:
        """To whom it was taken from, where that has a place still."""
        left = []
        for partition, member in zip(self.up, self._before, strict=True):
            if self.takes(member):
                self.owner[partition] = member
                self.piles[member].setdefault(int(self._network.kind[partition]), []).append(
                    partition
                )
            else:
                left.append((partition, member))
        self.up, self._before = [pair[0] for pair in left], [pair[1] for pair in left]

    def phase(self, near: Bools, *, claims_stay: bool = False) -> bool:
        """Carry out the shortest chains over seats that are near; whether there was one."""
        if not self.up:
            return False
        chains = _Chains(self, self._network, near, claims_stay=claims_stay)
        kinds = self._network.kind[self.up].tolist()
        stays = [
            not chains.place(partition, kind)
            for partition, kind in zip(self.up, kinds, strict=True)
        ]
        found = not all(stays)
        self.up = [partition for partition, stay in zip(self.up, stays, strict=True) if stay]
        self._before = [member for member, stay in zip(self._before, stays, strict=True) if stay]
        return found


class _Chains:
    """How many hand-overs each kind, seat and member is from a place, and the way down from there."""

    __slots__ = (
        "_claims_stay",
        "_desk",
        "_kind",
        "_member",
        "_network",
        "_seats",
        "_takers",
        "_ways",
    )

    def __init__(self, desk: _Desk, network: Network, near: Bools, *, claims_stay: bool) -> None:
        self._desk, self._network, self._claims_stay = desk, network, claims_stay
        kinds = len(network.seats)
        placed = np.flatnonzero((desk.owner >= 0) & ((desk.owner != desk.held) | (not claims_stay)))
        passing = desk.owner[placed].astype(np.int64) * kinds + network.kind[placed]
        keys = distinct(passing, len(desk.count) * kinds)
        passer, passed = np.divmod(keys, kinds)
        self._member = np.where(desk.left[desk.count + 1] > 0, 0, NOBODY)
        seat = np.full(len(network.seat_start) - 1, NOBODY)
        self._kind = np.full(kinds, NOBODY)
        wanted = distinct(network.kind[desk.up], kinds)
        for level in range(LONGEST):
            reached = network.seat[self._member[network.sitting] == level]
            seat[reached[seat[reached] < 0]] = level
            new = (self._kind < 0) & (near & (seat[network.seats] == level)).any(axis=1)
            self._kind[new] = level
            if not new.any() or (self._kind[wanted] >= 0).all():
                break
            onward = passer[new[passed]]
            self._member[onward[self._member[onward] < 0]] = level + 1
        self._ways = near & (seat[network.seats] == self._kind[:, None])
        self._seats: dict[int, list[int]] = {}  # by kind: the seats on its ways
        self._takers: dict[
            int, list[int]
        ] = {}  # by seat: the members of its level that are still to be tried

    def place(self, partition: int, kind: int) -> bool:
        """To a member on a seat of the kind, which has a place or passes something on; whether there is one."""
        level = int(self._kind[kind])
        if level < 0:
            return False
        if kind not in self._seats:
            self._seats[kind] = self._network.seats[kind][self._ways[kind]].tolist()
        for seat in self._seats[kind]:
            takers = self._on(seat, level)
            while takers:
                if self._makes_place(takers[-1], level):
                    self._desk.owner[partition] = takers[-1]
                    self._desk.piles[takers[-1]].setdefault(kind, []).append(partition)
                    return True
                takers.pop()
        self._kind[kind] = NOBODY  # no way down from here in this phase
        return False

    def _on(self, seat: int, level: int) -> list[int]:
        if seat not in self._takers:
            there = self._network.sitting[
                self._network.seat_start[seat] : self._network.seat_start[seat + 1]
            ]
            self._takers[seat] = there[self._member[there] == level].tolist()
        return self._takers[seat]

    def _makes_place(self, member: int, level: int) -> bool:
        if level == 0:
            return self._desk.takes(member)
        for kind, mine in self._desk.piles[member].items():
            if (
                self._kind[kind] == level - 1
                and self._passes(member, mine)
                and self.place(mine[-1], kind)
            ):
                mine.pop()
                return True
        return False

    def _passes(self, member: int, mine: list[int]) -> bool:
        return bool(mine) and not (self._claims_stay and self._desk.held[mine[-1]] == member)
