"""How many tasks each process is due.

Law: the next task goes where the tasks per thread are fewest after it. The sorted loads per thread are then the least that
can be, from the largest down; with equal threads nobody has two more than another. Processes that are equally due the last
tasks are told apart by nobody here: who asks has the choice.
Cost: O(P + threads · log threads).
Source: D'Hondt's divisors, which never take from one when another leaves.
"""

from dataclasses import dataclass

import numpy as np

from assignors.columns import Bools, Longs, within


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """What is due by process: `sure` to each, and one more to `spare` of the `tied`."""

    sure: Longs
    tied: Bools
    spare: int


def shares(count: int, load: Longs, threads: Longs) -> Shares:
    """The shares of so many tasks over processes that have a load already."""
    low, high = 0, count + int((load // threads).max(initial=0)) + 1
    while high - low > 1:  # the highest level that all threads can be filled to
        level = (low + high) // 2
        if _up_to(level, load, threads).sum() <= count:
            low = level
        else:
            high = level
    sure = _up_to(low, load, threads)
    left = count - int(sure.sum())
    nobody = np.zeros(len(load), dtype=np.bool_)
    if not left:
        return Shares(sure=sure, tied=nobody, spare=0)
    room = _up_to(low + 1, load, threads) - sure
    process = np.repeat(np.arange(len(load)), room)
    after = ((load + sure)[process] + within(room) + 1) / threads[process]  # load per thread, were it given
    last = np.partition(after, left - 1)[left - 1]
    sure += np.bincount(process[after < last], minlength=len(load))
    tied = nobody
    tied[process[after == last]] = True
    return Shares(sure=sure, tied=tied, spare=left - int(np.count_nonzero(after < last)))


def _up_to(level: int, load: Longs, threads: Longs) -> Longs:
    room: Longs = np.maximum(level * threads - load, 0)
    return room
