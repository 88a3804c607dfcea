"""Remote partitions made rack-local along chains of transfers, without a change of the loads.

Every remote partition is released, which leaves a slot at its owner, or at any member that has as
many partitions now. A released partition goes to a local reader with a slot, or to a local reader
that passes one of its own partitions on to a reader local to that one, and so on to a slot. A
partition without such a chain returns to its owner, or follows a chain that is not local. Each
phase carries out all shortest chains that do not conflict (Dinic's maximum flow).
Cost: O(S + P log P) a phase and a little for each chain; there are seldom more than a few phases.
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY
from levelwind.assignors.problem.columns import Bools, Ints, Longs, distinct, within
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.locality import rack_remote_at
from levelwind.assignors.sticky.member_stacks import MemberStacks
from levelwind.assignors.sticky.transfer_graph import TransferGraph

MAX_CHAIN_LENGTH = 24
"""Transfers in a chain; partitions that need more stay for the search for cycles."""


def bring_rack_local(group: Group, graph: TransferGraph, owner: Ints, held: Ints) -> None:
    """Improve the rack locality of the owners, in place."""
    remote = np.flatnonzero(rack_remote_at(group, owner))
    if not len(remote):
        return
    relocation = _Relocation(graph, owner.copy(), held, remote)
    while relocation.run_phase(~graph.rack_remote, claims_stay=True) or relocation.run_phase(
        ~graph.rack_remote
    ):
        pass
    relocation.return_released()
    while relocation.run_phase(np.ones_like(graph.rack_remote)):
        pass
    if not relocation.released:
        owner[:] = relocation.owner


class _Relocation:
    """Released partitions, and the slots that they left.

    `slots` counts, by load, the members that may reach this load again; a slot is not tied to the
    member that left it, so that the multiset of loads stays and its order may change.
    """

    __slots__ = (
        "_former_owners",
        "_graph",
        "count",
        "held",
        "owner",
        "released",
        "slots",
        "stacks",
    )

    def __init__(self, graph: TransferGraph, owner: Ints, held: Ints, partitions: Longs) -> None:
        self._graph, self.owner, self.held = graph, owner, held
        self.released = partitions.tolist()
        self._former_owners = owner[partitions].tolist()
        members = int(graph.reader.max()) + 1
        loads = np.bincount(owner[owner >= 0], minlength=members)
        owner[partitions] = NOBODY
        self.count = np.bincount(owner[owner >= 0], minlength=members)
        self.slots = np.zeros(int(loads.max()) + 2, dtype=np.int64)
        highest = np.repeat(loads, loads - self.count)
        np.add.at(self.slots, highest - within(loads - self.count), 1)
        self.stacks = MemberStacks(owner, held, graph.partition_class, members)

    def take_slot(self, member: int) -> bool:
        """Take a slot of the member's next load; return whether there was one."""
        load = self.count[member] + 1
        if not self.slots[load]:
            return False
        self.slots[load] -= 1
        self.count[member] = load
        return True

    def return_released(self) -> None:
        """Return released partitions to their former owners, where these still have a slot."""
        remaining = []
        for partition, member in zip(self.released, self._former_owners, strict=True):
            if self.take_slot(member):
                self.owner[partition] = member
                self.stacks[member].setdefault(
                    int(self._graph.partition_class[partition]), []
                ).append(partition)
            else:
                remaining.append((partition, member))
        self.released, self._former_owners = (
            [pair[0] for pair in remaining],
            [pair[1] for pair in remaining],
        )

    def run_phase(self, allowed: Bools, *, claims_stay: bool = False) -> bool:
        """Carry out the shortest chains over allowed reader classes; return whether there was one.

        With `claims_stay`, no chain passes on a partition that its owner claimed.
        """
        if not self.released:
            return False
        levels = _LevelGraph(self, self._graph, allowed, claims_stay=claims_stay)
        partition_classes = self._graph.partition_class[self.released].tolist()
        stays = [
            not levels.assign(partition, partition_class)
            for partition, partition_class in zip(self.released, partition_classes, strict=True)
        ]
        found = not all(stays)
        self.released = [
            partition for partition, stay in zip(self.released, stays, strict=True) if stay
        ]
        self._former_owners = [
            member for member, stay in zip(self._former_owners, stays, strict=True) if stay
        ]
        return found


class _LevelGraph:
    """Level graph of Dinic's algorithm for one phase.

    The level of a member is the number of transfers from it to the nearest slot; the level of a
    partition class or reader class is the lowest of the members that may take it.
    """

    __slots__ = (
        "_claims_stay",
        "_class_level",
        "_descends",
        "_graph",
        "_member_level",
        "_next_classes",
        "_relocation",
        "_takers",
    )

    def __init__(
        self, relocation: _Relocation, graph: TransferGraph, allowed: Bools, *, claims_stay: bool
    ) -> None:
        self._relocation, self._graph, self._claims_stay = relocation, graph, claims_stay
        partition_classes = len(graph.reader_classes)
        # Partitions that may be passed on, as distinct pairs of their owner and class.
        placed = np.flatnonzero(
            (relocation.owner >= 0) & ((relocation.owner != relocation.held) | (not claims_stay))
        )
        passing = (
            relocation.owner[placed].astype(np.int64) * partition_classes
            + graph.partition_class[placed]
        )
        keys = distinct(passing, len(relocation.count) * partition_classes)
        passer, passed = np.divmod(keys, partition_classes)
        self._member_level = np.where(relocation.slots[relocation.count + 1] > 0, 0, NOBODY)
        reader_class_level = np.full(len(graph.reader_class_start) - 1, NOBODY)
        self._class_level = np.full(partition_classes, NOBODY)
        released_classes = distinct(graph.partition_class[relocation.released], partition_classes)
        for level in range(MAX_CHAIN_LENGTH):
            reached = graph.reader_class[self._member_level[graph.reader] == level]
            reader_class_level[reached[reader_class_level[reached] < 0]] = level
            new = (self._class_level < 0) & (
                allowed & (reader_class_level[graph.reader_classes] == level)
            ).any(axis=1)
            self._class_level[new] = level
            if not new.any() or (self._class_level[released_classes] >= 0).all():
                break
            onward = passer[new[passed]]
            self._member_level[onward[self._member_level[onward] < 0]] = level + 1
        self._descends = allowed & (
            reader_class_level[graph.reader_classes] == self._class_level[:, None]
        )
        # By partition class: the reader classes on its shortest chains.
        self._next_classes: dict[int, list[int]] = {}
        # By reader class: the members of its level that are still to be tried.
        self._takers: dict[int, list[int]] = {}

    def assign(self, partition: int, partition_class: int) -> bool:
        """Give a partition to a reader with a slot or a chain to one; return whether one exists."""
        level = int(self._class_level[partition_class])
        if level < 0:
            return False
        if partition_class not in self._next_classes:
            self._next_classes[partition_class] = self._graph.reader_classes[partition_class][
                self._descends[partition_class]
            ].tolist()
        for reader_class in self._next_classes[partition_class]:
            takers = self._takers_in(reader_class, level)
            while takers:
                if self._free_slot(takers[-1], level):
                    self._relocation.owner[partition] = takers[-1]
                    self._relocation.stacks[takers[-1]].setdefault(partition_class, []).append(
                        partition
                    )
                    return True
                takers.pop()
        self._class_level[partition_class] = NOBODY  # no chain from here in this phase
        return False

    def _takers_in(self, reader_class: int, level: int) -> list[int]:
        """Members of a reader class at a level that are still to be tried."""
        if reader_class not in self._takers:
            start, end = self._graph.reader_class_start[reader_class : reader_class + 2]
            readers = self._graph.reader[start:end]
            self._takers[reader_class] = readers[self._member_level[readers] == level].tolist()
        return self._takers[reader_class]

    def _free_slot(self, member: int, level: int) -> bool:
        """Take the member's slot, or make room by passing one of its partitions down a level."""
        if level == 0:
            return self._relocation.take_slot(member)
        for partition_class, stack in self._relocation.stacks[member].items():
            if (
                self._class_level[partition_class] == level - 1
                and self._may_pass_on(member, stack)
                and self.assign(stack[-1], partition_class)
            ):
                stack.pop()
                return True
        return False

    def _may_pass_on(self, member: int, stack: list[int]) -> bool:
        """Whether the stack has a partition that the phase may move."""
        return bool(stack) and not (
            self._claims_stay and self._relocation.held[stack[-1]] == member
        )
