"""Threads: which thread of a process runs what.

Guarantees: the threads of a process get equally many stateful active tasks, then equally many
active tasks, then equally many copies of any kind; no thread has two more than another. A task
stays on its previous thread as far as that allows: the state belongs to the process, but only the
same thread can continue a task without closing it.
Ties: of the threads that may have one more, those that had more of these tasks, then by id.
Cost: O(tasks · log threads).
Source: Kafka's StreamsPartitionAssignor (stateful first, sticky, then interleaved).
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace

from levelwind.assignors.kafka_streams.application import NOBODY, Application
from levelwind.assignors.kafka_streams.task_model import TaskAssignment
from levelwind.assignors.kafka_streams.warmups import TransitionStep
from levelwind.assignors.problem.columns import Longs

STATEFUL, STATELESS, STANDBY, WARMUP = range(4)
"""Kinds of work of a thread, in the order in which they are shared out."""


def assign_threads(
    app: Application, active: Longs, step: TransitionStep
) -> dict[str, dict[str, TaskAssignment]]:
    """Return the tasks of each consumer, by process and consumer id.

    Args:
        app: the application.
        active: the process that runs each task now (T).
        step: standbys and warm-ups of each task.
    """
    work: list[tuple[list[int], list[int], list[int], list[int]]] = [
        ([], [], [], []) for _ in app.processes
    ]
    stateful = app.stateful.tolist()
    for task, process in enumerate(active.tolist()):
        work[process][STATEFUL if stateful[task] else STATELESS].append(task)
    for kind, by_task in ((STANDBY, step.standbys), (WARMUP, step.warmups)):
        for task, processes in enumerate(by_task):
            for process in processes:
                work[process][kind].append(task)
    starts = app.consumer_start.tolist()
    return {
        name: _assign_process(
            app, process, range(starts[process], starts[process + 1]), work[process]
        )
        for process, name in enumerate(app.processes)
    }


def _assign_process(
    app: Application,
    process: int,
    consumers: range,
    work: tuple[list[int], list[int], list[int], list[int]],
) -> dict[str, TaskAssignment]:
    """The tasks of one process's consumers, by consumer id."""
    if len(consumers) == 1:
        active = sorted(work[0] + work[1])
        return {app.consumers[consumers[0]]: _task_assignment(app, active, work[2], work[3])}
    load = [0] * len(consumers)
    first = consumers[0]
    threads_by_kind: list[dict[int, int]] = []
    for kind, tasks in enumerate(work):
        previous_thread = {}
        for task in tasks:
            ran = app.active_consumer[task]
            followed = app.standby_consumers[task].get(process, NOBODY)
            before = (ran, followed) if kind < STANDBY else (followed, ran)
            threads_here = [consumer - first for consumer in before if consumer in consumers]
            if threads_here:
                previous_thread[task] = threads_here[0]
        threads_by_kind.append(_share_out(tasks, previous_thread, load))
    assignments = {}
    for thread, consumer in enumerate(consumers):
        tasks_by_kind = [
            [task for task, assigned in thread_of.items() if assigned == thread]
            for thread_of in threads_by_kind
        ]
        assignments[app.consumers[consumer]] = _task_assignment(
            app,
            sorted(tasks_by_kind[0] + tasks_by_kind[1]),
            sorted(tasks_by_kind[2]),
            sorted(tasks_by_kind[3]),
        )
    return assignments


def _share_out(
    tasks: Sequence[int], previous_thread: Mapping[int, int], load: list[int]
) -> dict[int, int]:
    """The thread of each task; `load` grows by what each thread gets."""
    if not tasks:
        return {}
    level, spare = _fill_level(len(tasks), load)
    room = [max(level - each, 0) for each in load]
    may_exceed = [thread for thread, each in enumerate(load) if each <= level]
    wanted = [0] * len(load)
    for thread in previous_thread.values():
        wanted[thread] += 1
    for thread in sorted(may_exceed, key=lambda each: (room[each] - wanted[each], each))[:spare]:
        room[thread] += 1
    thread_of = {}
    for task, thread in previous_thread.items():
        if room[thread]:
            room[thread] -= 1
            load[thread] += 1
            thread_of[task] = thread
    by_load = [(load[thread], thread) for thread in range(len(load)) if room[thread]]
    heapify(by_load)
    for task in tasks:
        if task not in thread_of:
            while not room[by_load[0][1]]:
                heapreplace(by_load, (2**62, by_load[0][1]))
            thread = by_load[0][1]
            thread_of[task] = thread
            room[thread] -= 1
            load[thread] += 1
            heapreplace(by_load, (load[thread], thread))
    return thread_of


def _fill_level(count: int, load: Sequence[int]) -> tuple[int, int]:
    """The level that `count` tasks fill the loads up to, and how many tasks remain above it."""
    ascending = sorted(load)
    below = 0
    for threads, thread_load in enumerate(ascending, 1):
        below += thread_load
        level, left = divmod(count + below, threads)
        if threads == len(ascending) or level < ascending[threads]:
            break
    return level, left


def _task_assignment(
    app: Application, active: Sequence[int], standby: Sequence[int], warmup: Sequence[int]
) -> TaskAssignment:
    """The task ids of one consumer."""
    return TaskAssignment(
        active=tuple(app.tasks[task] for task in active),
        standby=tuple(app.tasks[task] for task in standby),
        warmup=tuple(app.tasks[task] for task in warmup),
    )
