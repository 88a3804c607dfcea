"""A kind's partitions dealt to its members by decreasing load, in batches rather than one by one.

Law: the heaviest go to who needs most for each partition that it is still to get, so that counts may be even where capacities
are not; a batch at a time: as many members as could take one each before any should take a second. Nobody gets more than its
most; beyond their least, members share what is left over.
Ties: members by id.
Cost: O(n log n) for sorting n members, about P / n batches, some more where capacities differ.
"""

import numpy as np

from assignors.problem.columns import (
    Floats,
    Longs,
)

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
        slots = np.maximum(least[may] - count[may], 1)
        turn = _turn(room[may] / slots, float(load[begin]) / slots, len(load) - begin)
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


def _turn(need: Floats, less: Floats, left: int) -> Longs:
    """The members of a batch, the neediest first; `less` is what one partition takes off each need."""
    order = np.argsort(-need, kind="stable")
    size = int(np.count_nonzero(need >= need[order[0]] - less[order[0]]))
    return order[: min(max(size, -(-len(need) // AT_LEAST)), left)]
