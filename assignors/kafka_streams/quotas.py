"""Task quotas: how many tasks each process is to get.

Guarantees: the next task goes to the process with fewest tasks per thread, then to the one with
most threads. So no thread needs two tasks more than another, every process gets a task before any
process with a task for each thread gets another, and with equal threads no process has two tasks
more than another. The caller chooses which of the tied processes get the last tasks.
Cost: O(P log T + threads log threads).
Source: Kafka's least-loaded rule (KIP-1071's assignor; KIP-441's comes to the same). As divisors
they are Adams's, so no process gets less when another one leaves.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem.columns import Bools, Longs, within


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskQuotas:
    """Guaranteed tasks of each process, and one more for `spare` tied processes."""

    guaranteed: Longs
    """P: tasks that the process gets in any case."""
    tied: Bools
    """P: whether the process may get one of the spare tasks."""
    spare: int
    """Tasks beyond the guaranteed ones: each goes to another tied process.

    Invariant: there are at least as many tied processes.
    """


def task_quotas(count: int, load: Longs, threads: Longs) -> TaskQuotas:
    """Compute the quotas of some tasks over processes that have tasks already.

    Args:
        count: tasks to distribute.
        load: tasks that each process has (P).
        threads: threads of each process (P).
    """
    low, high = 0, count + int((load // threads).max(initial=0)) + 1
    while high - low > 1:  # the highest number of tasks per thread that all threads can reach
        level = (low + high) // 2
        if _room_up_to(level, load, threads).sum() <= count:
            low = level
        else:
            high = level
    guaranteed = _room_up_to(low, load, threads)
    remaining = count - int(guaranteed.sum())
    none_tied = np.zeros(len(load), dtype=np.bool_)
    if not remaining:
        return TaskQuotas(guaranteed=guaranteed, tied=none_tied, spare=0)
    room = _room_up_to(low + 1, load, threads) - guaranteed
    process = np.repeat(np.arange(len(load)), room)
    # The tasks per thread to which each further task is added.
    before = ((load + guaranteed)[process] + within(room)) / threads[process]
    thread_count = threads[process]
    last = np.lexsort((-thread_count, before))[remaining - 1]
    certain = (before < before[last]) | (
        (before == before[last]) & (thread_count > thread_count[last])
    )
    tied = none_tied
    tied[process[(before == before[last]) & (thread_count == thread_count[last])]] = True
    guaranteed += np.bincount(process[certain], minlength=len(load))
    return TaskQuotas(
        guaranteed=guaranteed, tied=tied, spare=remaining - int(np.count_nonzero(certain))
    )


def _room_up_to(level: int, load: Longs, threads: Longs) -> Longs:
    """P: tasks that the process takes up until each of its threads has `level` tasks."""
    room: Longs = np.maximum(level * threads - load, 0)
    return room
