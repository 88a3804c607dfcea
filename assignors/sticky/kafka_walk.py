"""Kafka's placement from scratch where all members read the same topics.

Guarantees: a partition goes to the next member below the quota in one of its racks, counted from a
cursor that wraps around, and the cursor moves past that member. Where every such member is at the
quota, the partition goes to the one that reached the quota first, as long as members may still take
one more than the quota. This repeats Kafka's constrained sticky assignor step by step, because
every choice depends on the ones before it.
Cost: O(racks of a partition x log M) a partition.
"""

from bisect import bisect_left
from collections import deque
from operator import itemgetter


class KafkaWalk:
    """Members below the quota by rack, and members at the quota in order of arrival there."""

    __slots__ = ("_arrivals", "_at_quota", "_below", "_count", "_extras", "_quota", "_rack")

    def __init__(self, rack: list[int], racks: int, quota: int, extras: int) -> None:
        """Start with members that have nothing.

        Args:
            rack: rack of each member, members in order of their ids; -1 where it is unknown.
            racks: number of racks.
            quota: partitions that every member gets at least.
            extras: number of members that get one more than the quota.
        """
        self._rack, self._quota, self._extras = rack, quota, extras
        self._count = [0] * len(rack)
        self._arrivals = 0
        # Members below the quota, ascending, by rack; the unknown rack is last.
        self._below: list[list[int]] = [[] for _ in range(racks + 1)]
        # Members at the quota with the number of their arrival, by rack.
        self._at_quota: list[deque[tuple[int, int]]] = [deque() for _ in range(racks + 1)]
        for member, member_rack in enumerate(rack):
            if quota:
                self._below[member_rack].append(member)
            else:
                self._arrive(member)

    def assign_rack_local(self, rack_sets: list[int], racks: list[list[int]]) -> list[int]:
        """Place partitions in turn; -1 where no member in a partition's racks has room.

        Args:
            rack_sets: rack set of each partition, in the order of placement.
            racks: racks of each rack set.
        """
        below = [[self._below[rack] for rack in rack_indices] for rack_indices in racks]
        size, count, quota, cursor = len(self._rack), self._count, self._quota, 0
        no_member = 2 * size
        placed = []
        for rack_set in rack_sets:
            next_member = no_member  # members before the cursor count as one round later
            for members in below[rack_set]:
                if members:
                    index = bisect_left(members, cursor)
                    member = members[index] if index < len(members) else members[0] + size
                    next_member = min(next_member, member)
            if next_member == no_member:
                placed.append(self._take_extra(racks[rack_set]))
                continue
            member = next_member if next_member < size else next_member - size
            cursor = member + 1
            count[member] += 1
            if count[member] == quota:
                self._leave(member)
            placed.append(member)
        return placed

    def assign_rest(self, number: int) -> list[int]:
        """Place `number` more partitions: in rounds up to the quota, then by arrival at it."""
        below = sorted(member for members in self._below for member in members)
        placed: list[int] = []
        while below and len(placed) < number:
            round_members = below[: number - len(placed)]
            for member in round_members:
                self._count[member] += 1
                if self._count[member] == self._quota:
                    self._leave(member)
            placed += round_members
            below = [member for member in below if self._count[member] < self._quota]
        arrived = sorted(pair for queue in self._at_quota for pair in queue)
        return placed + [member for _, member in arrived[: number - len(placed)]]

    def _leave(self, member: int) -> None:
        members = self._below[self._rack[member]]
        del members[bisect_left(members, member)]
        self._arrive(member)

    def _arrive(self, member: int) -> None:
        self._at_quota[self._rack[member]].append((self._arrivals, member))
        self._arrivals += 1

    def _take_extra(self, racks: list[int]) -> int:
        """Give one more than the quota to the first of these racks' members to reach the quota."""
        waiting = [self._at_quota[rack] for rack in racks if self._at_quota[rack]]
        if not waiting or not self._extras:
            return -1
        self._extras -= 1
        return min(waiting, key=itemgetter(0)).popleft()[1]
