"""How many tasks each process is due.

Law: the next task goes where the tasks per thread are fewest, then where the threads are most. So no thread need have two more than another, everybody gets
a task before anybody with a task for a thread gets more, and with equal threads nobody has two more than another. Which of
those that are equally due get the last tasks is not told here: who asks has the choice.
Cost: O(P log T + threads log threads).
Source: Kafka's least-loaded rule (KIP-1071's assignor; KIP-441's comes to the same). As divisors they are Adams's, so
nobody is due less when another leaves.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.columns import (
    Bools,
    Longs,
    within,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskQuotas:
    """What is due by process: `sure` to each, and one more to `spare` of the `tied`."""

    sure: Longs
    tied: Bools
    spare: int


def task_quotas(count: int, load: Longs, threads: Longs) -> TaskQuotas:
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
        return TaskQuotas(sure=sure, tied=nobody, spare=0)
    room = _up_to(low + 1, load, threads) - sure
    process = np.repeat(np.arange(len(load)), room)
    before = ((load + sure)[process] + within(room)) / threads[
        process
    ]  # the load per thread that it is added to
    more = threads[process]
    last = np.lexsort((-more, before))[left - 1]
    ahead = (before < before[last]) | ((before == before[last]) & (more > more[last]))
    tied = nobody
    tied[process[(before == before[last]) & (more == more[last])]] = True
    sure += np.bincount(process[ahead], minlength=len(load))
    return TaskQuotas(sure=sure, tied=tied, spare=left - int(np.count_nonzero(ahead)))


def _up_to(level: int, load: Longs, threads: Longs) -> Longs:
    room: Longs = np.maximum(level * threads - load, 0)
    return room
