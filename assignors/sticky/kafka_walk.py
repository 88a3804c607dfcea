"""Kafka's walk from scratch where all members read the same: members in a circle, a hand that goes round, and a quota.

Law: a partition goes to the next member below the quota in one of its racks, from the hand on, and the hand moves past it;
when there is none, to the one in its racks that came to the quota first, while members may still have one more than the
quota. Step by step what Kafka's constrained sticky assignor does, which every later choice depends on.
Cost: O(racks of a partition x log M) a partition.
"""

from bisect import bisect_left
from collections import deque
from operator import itemgetter


class Circle:
    """Members below the quota by rack, and those at it in the order in which they came there."""

    __slots__ = ("_arrived", "_at_quota", "_below", "_count", "_extras", "_quota", "_rack")

    def __init__(self, rack: list[int], racks: int, quota: int, extras: int) -> None:
        """Members by id with their racks, -1 unknown; so many racks; and how many members get one more than the quota."""
        self._rack, self._quota, self._extras = rack, quota, extras
        self._count = [0] * len(rack)
        self._arrived = 0
        self._below: list[list[int]] = [
            [] for _ in range(racks + 1)
        ]  # by rack, the unknown one last: ascending
        self._at_quota: list[deque[tuple[int, int]]] = [
            deque() for _ in range(racks + 1)
        ]  # arrivals with members
        for member, place in enumerate(rack):
            if quota:
                self._below[place].append(member)
            else:
                self._arrive(member)

    def place_near(self, kinds: list[int], racks: list[list[int]]) -> list[int]:
        """A member for each partition in turn, given its kind and the racks of each kind; -1 where none is near."""
        below = [[self._below[rack] for rack in theirs] for theirs in racks]
        size, count, quota, hand = len(self._rack), self._count, self._quota, 0
        nobody = 2 * size
        given = []
        for kind in kinds:
            onward = nobody  # members before the hand come a round later
            for members in below[kind]:
                if members:
                    place = bisect_left(members, hand)
                    member = members[place] if place < len(members) else members[0] + size
                    onward = min(onward, member)
            if onward == nobody:
                given.append(self._lengthened(racks[kind]))
                continue
            member = onward if onward < size else onward - size
            hand = member + 1
            count[member] += 1
            if count[member] == quota:
                self._leave(member)
            given.append(member)
        return given

    def places(self, number: int) -> list[int]:
        """The members of the next so many partitions, in turns until all are at the quota, then by arrival there."""
        below = sorted(member for members in self._below for member in members)
        given: list[int] = []
        while below and len(given) < number:
            turn = below[: number - len(given)]
            for member in turn:
                self._count[member] += 1
                if self._count[member] == self._quota:
                    self._leave(member)
            given += turn
            below = [member for member in below if self._count[member] < self._quota]
        arrived = sorted(pair for queue in self._at_quota for pair in queue)
        return given + [member for _, member in arrived[: number - len(given)]]

    def _leave(self, member: int) -> None:
        members = self._below[self._rack[member]]
        del members[bisect_left(members, member)]
        self._arrive(member)

    def _arrive(self, member: int) -> None:
        self._at_quota[self._rack[member]].append((self._arrived, member))
        self._arrived += 1

    def _lengthened(self, racks: list[int]) -> int:
        """Give the first arrival in one of the racks one more than the quota."""
        waiting = [self._at_quota[rack] for rack in racks if self._at_quota[rack]]
        if not waiting or not self._extras:
            return -1
        self._extras -= 1
        return min(waiting, key=itemgetter(0)).popleft()[1]
