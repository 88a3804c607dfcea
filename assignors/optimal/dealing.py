"""A kind's partitions dealt to its members by decreasing load, in batches rather than one by one.

Law: the heaviest go to who has most room under its part of the load, a batch at a time: as many members as could take one
each before any should take a second. Nobody gets more than its most; beyond their least, members share what is left over.
Ties: members by id.
Cost: O(n log n) for sorting n members, about P / n batches, some more where capacities differ.
"""

import numpy as np

from assignors.columns import Floats, Longs

AT_LEAST = 8  # a batch takes one in so many of those that may


def dealt(load: Floats, room: Floats, count: Longs, least: Longs, most: Longs) -> Longs:
    """By partition: the member that gets it.

    Args:
        load: of the partitions, decreasing.
        room: by member, what it should still get of the load.
        count: by member, how many it has.
        least: by member, how many it gets at least.
        most: and at most.
    """
    members = np.empty(len(load), dtype=np.int64)
    if len(room) == 1:
        members[:] = 0
        return members
    room, count = room.copy(), count.copy()
    pool = len(load) - int(np.maximum(least - count, 0).sum())
    begin = 0
    while begin < len(load):
        below = count < least
        may = np.flatnonzero(below | (count < most)) if pool else np.flatnonzero(below)
        turn = _turn(room[may], float(load[begin]), len(load) - begin)
        taker = may[turn]
        if pool < len(taker):  # who is at its least takes from what all share
            extra = ~below[taker]
            taker = taker[~extra | (np.cumsum(extra) <= pool)]
        pool -= int(np.count_nonzero(~below[taker]))
        end = begin + len(taker)
        members[begin:end] = taker
        room[taker] -= load[begin:end]
        count[taker] += 1
        begin = end
    return members


def _turn(room: Floats, load: float, left: int) -> Longs:
    """The members of a batch, most room first."""
    order = np.argsort(-room, kind="stable")
    size = int(np.count_nonzero(room >= room[order[0]] - load))
    return order[: min(max(size, -(-len(room) // AT_LEAST)), left)]
