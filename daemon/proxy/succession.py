"""Order in which the brokers' coordinator picks a leader after the present one. Pure.

The coordinator keeps a group's members in a Java hash map and takes the first of it. The order of
the map follows from the member ids, whose last part the broker draws at random: a static member
that joins a stable group without an id gets another one, and the group no round, so it can ask
until it comes first. That is no right, only a better lot; nothing else depends on it.
Source: `ClassicGroup` and `java.util.HashMap`, unchanged since Kafka 3.5. Its forerunner in Scala
has another order, in which the lot is as good as any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

LEAST_SLOTS = 16
"""Size of a new hash map; it doubles when it is filled by more than three quarters."""

MOST_DRAWS = 64
"""Ids that are asked for at most in a generation: the brokers log each, and write the group."""


def slots(members: int) -> int:
    """Size of the hash map of so many members."""
    size = LEAST_SLOTS
    while 4 * members > 3 * size:
        size *= 2
    return size


def slot_of(member_id: str, size: int) -> int:
    """Position of a member in the order of a hash map of a size."""
    value = 0
    units = member_id.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2], "big")) & 0xFFFFFFFF
    return (value ^ (value >> 16)) & (size - 1)


class MapOrder(NamedTuple):
    """Order of a group's members."""

    size: int
    """Size of the hash map once one more has joined."""
    first: int
    """Position of the first member that can be overtaken; `size` without any."""

    def goes_first(self, candidate: str) -> bool:
        """Whether a candidate that joins comes before all that can be overtaken."""
        return slot_of(candidate, self.size) < self.first


def order_of(members: Collection[str]) -> MapOrder:
    """Order of the members of a group; nobody overtakes a member in the very first slot."""
    size = slots(len(members) + 1)
    taken = (slot_of(member, size) for member in members)
    return MapOrder(size, min(filter(None, taken), default=size))


NO_MEMBERS = MapOrder(LEAST_SLOTS, LEAST_SLOTS)
"""Order of a group that has no members."""
