"""Which thread of a process runs what.

Law: the threads of a process get equally many stateful active tasks, then equally many active ones, then equally many copies
of any kind; nobody has two more than another. A task stays on the thread that had it as far as that allows: the state is
the process's, but only the same thread can go on with a task without closing it.
Ties: of threads that may have one more, those that had more of these tasks, then by id.
Cost: O(tasks · log threads).
Source: Kafka's StreamsPartitionAssignor (stateful first, sticky, then interleaved).
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace

from assignors.kafka_streams.application import (
    NOBODY,
    Application,
)
from assignors.kafka_streams.task_model import TaskAssignment
from assignors.kafka_streams.warmups import TransitionStep
from assignors.problem.columns import Longs

STATEFUL, STATELESS, STANDBY, WARMUP = range(4)


def assign_threads(
    app: Application, active: Longs, moved: TransitionStep
) -> dict[str, dict[str, TaskAssignment]]:
    """By process and consumer: what each runs, follows and warms up."""
    work: list[tuple[list[int], list[int], list[int], list[int]]] = [
        ([], [], [], []) for _ in app.processes
    ]
    stateful = app.stateful.tolist()
    for task, process in enumerate(active.tolist()):
        work[process][STATEFUL if stateful[task] else STATELESS].append(task)
    for kind, by_task in ((STANDBY, moved.standbys), (WARMUP, moved.warmups)):
        for task, those in enumerate(by_task):
            for process in those:
                work[process][kind].append(task)
    starts = app.consumer_start.tolist()
    return {
        name: _dealt(app, process, range(starts[process], starts[process + 1]), work[process])
        for process, name in enumerate(app.processes)
    }


def _dealt(
    app: Application,
    process: int,
    consumers: range,
    work: tuple[list[int], list[int], list[int], list[int]],
) -> dict[str, TaskAssignment]:
    if len(consumers) == 1:
        active = sorted(work[0] + work[1])
        return {app.consumers[consumers[0]]: _named(app, active, work[2], work[3])}
    load = [0] * len(consumers)
    first = consumers[0]
    dealt: list[dict[int, int]] = []
    for kind, tasks in enumerate(work):
        had = {}
        for task in tasks:
            ran = app.active_consumer[task]
            followed = app.standby_consumers[task].get(process, NOBODY)
            before = (ran, followed) if kind < STANDBY else (followed, ran)
            here = [consumer - first for consumer in before if consumer in consumers]
            if here:
                had[task] = here[0]
        dealt.append(_shared(tasks, had, load))
    answer = {}
    for thread, consumer in enumerate(consumers):
        mine = [[task for task, at in those.items() if at == thread] for those in dealt]
        answer[app.consumers[consumer]] = _named(
            app, sorted(mine[0] + mine[1]), sorted(mine[2]), sorted(mine[3])
        )
    return answer


def _shared(tasks: Sequence[int], had: Mapping[int, int], load: list[int]) -> dict[int, int]:
    """The thread of each task; their loads grow by what they get."""
    if not tasks:
        return {}
    level, spare = _filled(len(tasks), load)
    room = [max(level - each, 0) for each in load]
    more = [thread for thread, each in enumerate(load) if each <= level]
    wish = [0] * len(load)
    for thread in had.values():
        wish[thread] += 1
    for thread in sorted(more, key=lambda each: (room[each] - wish[each], each))[:spare]:
        room[thread] += 1
    dealt = {}
    for task, thread in had.items():
        if room[thread]:
            room[thread] -= 1
            load[thread] += 1
            dealt[task] = thread
    line = [(load[thread], thread) for thread in range(len(load)) if room[thread]]
    heapify(line)
    for task in tasks:
        if task not in dealt:
            while not room[line[0][1]]:
                heapreplace(line, (2**62, line[0][1]))
            thread = line[0][1]
            dealt[task] = thread
            room[thread] -= 1
            load[thread] += 1
            heapreplace(line, (load[thread], thread))
    return dealt


def _filled(count: int, load: Sequence[int]) -> tuple[int, int]:
    """The level that so many tasks fill the loads up to, and how many are left above it."""
    low = sorted(load)
    below = 0
    for threads, each in enumerate(low, 1):
        below += each
        level, left = divmod(count + below, threads)
        if threads == len(low) or level < low[threads]:
            break
    return level, left


def _named(
    app: Application, active: Sequence[int], standby: Sequence[int], warmup: Sequence[int]
) -> TaskAssignment:
    return TaskAssignment(
        active=tuple(app.tasks[task] for task in active),
        standby=tuple(app.tasks[task] for task in standby),
        warmup=tuple(app.tasks[task] for task in warmup),
    )
