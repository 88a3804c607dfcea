"""Deal the partitions of a member class to its members by decreasing load, in batches.

Guarantees: the heaviest partitions go to the members that need most load for each partition that
they are still to get, so that counts may be even where capacities are not. A batch has as many
members as could take one partition each before any of them should take a second. No member gets
more than its maximum; beyond the minimum counts, members share the rest.
Ties: members by id.
Cost: O(n log n) for sorting n members, in about P / n batches, some more where capacities differ.
"""

import numpy as np

from levelwind.assignors.problem.columns import Floats, Longs

BATCH_DIVISOR = 8
"""A batch takes at least one eligible member in `BATCH_DIVISOR`."""


def deal(load: Floats, room: Floats, count: Longs, min_count: Longs, max_count: Longs) -> Longs:
    """Return the member that gets each partition.

    Args:
        load: loads of the partitions, decreasing.
        room: load that each member should still get.
        count: partitions that each member has.
        min_count: partitions that each member gets at least.
        max_count: partitions that each member gets at most.
    """
    members = np.empty(len(load), dtype=np.int64)
    if len(room) == 1:
        members[:] = 0
        return members
    room, count = room.copy(), count.copy()
    extras = len(load) - int(np.maximum(min_count - count, 0).sum())
    begin = 0
    while begin < len(load):
        below = count < min_count
        eligible = np.flatnonzero(below | (count < max_count)) if extras else np.flatnonzero(below)
        slots = np.maximum(min_count[eligible] - count[eligible], 1)
        batch = _next_batch(room[eligible] / slots, float(load[begin]) / slots, len(load) - begin)
        taker = eligible[batch]
        if extras < len(taker):  # members at their minimum count share the extra partitions
            takes_extra = ~below[taker]
            taker = taker[~takes_extra | (np.cumsum(takes_extra) <= extras)]
        extras -= int(np.count_nonzero(~below[taker]))
        end = begin + len(taker)
        members[begin:end] = taker
        room[taker] -= load[begin:end]
        count[taker] += 1
        begin = end
    return members


def _next_batch(need: Floats, decrease: Floats, remaining: int) -> Longs:
    """Members of the next batch, the neediest first.

    Args:
        need: load that each member needs for each partition that it is still to get.
        decrease: how much one partition lowers each need.
        remaining: partitions that remain to be dealt.
    """
    order = np.argsort(-need, kind="stable")
    size = int(np.count_nonzero(need >= need[order[0]] - decrease[order[0]]))
    return order[: min(max(size, -(-len(need) // BATCH_DIVISOR)), remaining)]
