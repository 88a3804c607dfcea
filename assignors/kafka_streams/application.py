"""The application in columns: from here on, integers stand for names.

Guarantees: two problems that differ only in the order of their input give the same `Application`.
Tasks are ordered by subtopology (numbers as numbers) and partition, processes and consumers by id.
Claims of unknown tasks are ignored: a topology changes while its processes run. A task that two
processes claim to have run as active has no owner, since it is unknown which of them wrote last.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelwind.assignors.kafka_streams.task_model import (
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Task,
)
from levelwind.assignors.problem.columns import Bools, Longs, in_java_order, starts, utf16
from levelwind.assignors.problem.inputs import ProblemError

NOBODY = -1
"""Index of no process, or of no consumer."""
UNKNOWN = 2**63 - 1
"""Lag, in records, of which nothing is known: it counts as further behind than any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCopy:
    """State of a task on a process that has or had it."""

    process: int
    """Index of the process."""
    lag: int
    """Records that the copy is behind; `UNKNOWN` if nothing is known."""
    active: bool
    """The process ran the task, as the only one."""
    standby: bool
    """The process had a standby or a warm-up of the task."""
    caught_up: bool
    """The lag is acceptable (`StreamsSettings.acceptable_recovery_lag`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Application:
    """T tasks, P processes, C consumers and K racks; the last rack is the unknown one."""

    tasks: tuple[str, ...]
    """T: task ids."""
    subtopology: Longs
    """T: index of the task's subtopology."""
    stateful: Bools
    """T: whether the task has state."""
    input_misses: Longs
    """T x K: source partitions without a replica in the rack, of those whose racks are known."""
    changelog_misses: Longs
    """T x K: changelog partitions without a replica in the rack, of those whose racks are known."""
    base_lag: tuple[int, ...]
    """T: lag of a process without any state of the task, in records."""
    acceptable_lag: int
    """Lag up to which a copy counts as caught up, in records."""

    processes: tuple[str, ...]
    """P: process ids."""
    rack: Longs
    """P: index of the process's rack, 0 … K-1."""
    threads: Longs
    """P: number of the process's consumers."""
    tag_class: Longs
    """P: index of the process's tag values."""
    tag_values: tuple[tuple[str | None, ...], ...]
    """By tag class: the values of the tags in `StreamsSettings.rack_aware_tags`, in their order."""

    consumers: tuple[str, ...]
    """C: consumer ids, process by process."""
    consumer_start: Longs
    """P+1: the consumers of process p are consumer_start[p] : consumer_start[p + 1]."""

    copies: tuple[tuple[TaskCopy, ...], ...]
    """T: copies of the task by ascending process; none of a stateless task."""
    owner: Longs
    """T: the process that had the task active; -1 if none is known."""
    active_consumer: tuple[int, ...]
    """T: the consumer that ran the task; -1 if none is known."""
    standby_consumers: tuple[Mapping[int, int], ...]
    """T: by process, the consumer that had a standby of the task."""

    @classmethod
    def build(
        cls, tasks: Iterable[Task], processes: Iterable[StreamsProcess], settings: StreamsSettings
    ) -> "Application":
        """Replace the names by indices and lay out the columns.

        Raises:
            ProblemError: the message names the task or process, the field, and what is expected
            there.
        """
        ordered_tasks = tasks_in_order(tasks)
        ordered_processes = processes_in_order(processes)
        task_index = {task.id: index for index, task in enumerate(ordered_tasks)}
        consumers = [consumers_in_order(process) for process in ordered_processes]
        consumer_start = starts([len(of_process) for of_process in consumers])
        rack_index, rack = _racks(ordered_processes)
        tag_values, tag_class = _tag_classes(ordered_processes, settings.rack_aware_tags)
        base_lag = _base_lags(ordered_tasks)
        active, standby = _claims(task_index, consumers, consumer_start)
        active_consumer, owner = _owners(active)
        return cls(
            tasks=tuple(task_index),
            subtopology=_subtopologies(ordered_tasks),
            stateful=np.array([task.stateful for task in ordered_tasks], dtype=np.bool_),
            input_misses=_misses(ordered_tasks, "input_racks", rack_index),
            changelog_misses=_misses(ordered_tasks, "changelog_racks", rack_index),
            base_lag=base_lag,
            acceptable_lag=settings.acceptable_recovery_lag,
            processes=tuple(process.id for process in ordered_processes),
            rack=rack,
            threads=np.diff(consumer_start),
            tag_class=tag_class,
            tag_values=tag_values,
            consumers=tuple(consumer.id for of_process in consumers for consumer in of_process),
            consumer_start=consumer_start,
            copies=_copies(
                ordered_tasks,
                _known_lags(ordered_processes, task_index, base_lag),
                base_lag,
                active,
                standby,
                settings.acceptable_recovery_lag,
            ),
            owner=owner,
            active_consumer=active_consumer,
            standby_consumers=tuple(standby),
        )

    def lag(self, task: int, process: int) -> int:
        """Records that a process is behind the end of a task's changelogs."""
        for copy in self.copies[task]:
            if copy.process == process:
                return copy.lag
        return self.base_lag[task]

    def caught_up(self, task: int, process: int) -> bool:
        """Whether a process is close enough to the end of a task's changelogs to run the task."""
        return self.lag(task, process) <= self.acceptable_lag


def tasks_in_order(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks in Kafka's order, after checking them.

    Raises:
        ProblemError: a field is invalid, or a task is given twice.
    """
    by_id: dict[str, Task] = {}
    for task in tasks:
        if not isinstance(task.subtopology, str) or not _is_offset(task.partition):
            raise ProblemError(
                f"task {task.subtopology!r}, {task.partition!r}: needs a subtopology (a string)"
                " and a partition from 0 up"
            )
        if task.id in by_id:
            raise ProblemError(f"task {task.id!r}: given twice; give each task once")
        if task.end_offset_sum is not None and not _is_offset(task.end_offset_sum):
            raise ProblemError(
                f"task {task.id!r}: end_offset_sum must be an integer from 0 up,"
                f" not {task.end_offset_sum!r}"
            )
        by_id[task.id] = task
    return sorted(
        by_id.values(), key=lambda task: (*subtopology_order(task.subtopology), task.partition)
    )


def subtopology_order(name: str) -> tuple[bool, int, bytes]:
    """Sort key of a subtopology: numbers first, as numbers; then names."""
    is_number = name.isascii() and name.isdigit() and len(name) < 10
    return not is_number, int(name) if is_number else 0, utf16(name)


def processes_in_order(processes: Iterable[StreamsProcess]) -> list[StreamsProcess]:
    """Return the processes by id, after checking them.

    Raises:
        ProblemError: a field is invalid, a process is given twice, or it has no consumer.
    """
    by_id: dict[str, StreamsProcess] = {}
    for process in processes:
        if not isinstance(process.id, str):
            raise ProblemError(f"process {process.id!r}: its id must be a string")
        if process.id in by_id:
            raise ProblemError(
                f"process {process.id!r}: given twice; give every process an id of its own"
            )
        if not process.consumers:
            raise ProblemError(
                f"process {process.id!r}: has no consumers; name one for each of its threads"
            )
        if process.rack is not None and not isinstance(process.rack, str):
            raise ProblemError(
                f"process {process.id!r}: rack must be a string, not {process.rack!r}"
            )
        for tag, value in process.tags.items():
            if not isinstance(tag, str) or not isinstance(value, str):
                raise ProblemError(
                    f"process {process.id!r}: tag {tag!r} must be a string, not {value!r}"
                )
        by_id[process.id] = process
    return [by_id[name] for name in in_java_order(by_id)]


def consumers_in_order(process: StreamsProcess) -> list[StreamsConsumer]:
    """Return a process's consumers by id, after checking them.

    Raises:
        ProblemError: an id is no string, or a consumer is given twice.
    """
    by_id: dict[str, StreamsConsumer] = {}
    for consumer in process.consumers:
        if not isinstance(consumer.id, str):
            raise ProblemError(
                f"process {process.id!r}: consumer {consumer.id!r} must have a string for an id"
            )
        if consumer.id in by_id:
            raise ProblemError(f"process {process.id!r}: consumer {consumer.id!r} is given twice")
        by_id[consumer.id] = consumer
    return [by_id[name] for name in in_java_order(by_id)]


def _subtopologies(tasks: Sequence[Task]) -> Longs:
    """T: index of the task's subtopology, in the order of tasks."""
    names = dict.fromkeys(task.subtopology for task in tasks)
    index = {name: number for number, name in enumerate(names)}
    return np.array([index[task.subtopology] for task in tasks], dtype=np.int64)


def _base_lags(tasks: Sequence[Task]) -> tuple[int, ...]:
    """T: lag of a process without any state of the task: all of its changelogs."""
    return tuple(UNKNOWN if task.end_offset_sum is None else task.end_offset_sum for task in tasks)


def _racks(processes: Sequence[StreamsProcess]) -> tuple[dict[str, int], Longs]:
    """Index of each rack name, and the rack of each process.

    Processes of an unknown rack get the index after the last.
    """
    names = in_java_order({process.rack for process in processes if process.rack is not None})
    index = {name: number for number, name in enumerate(names)}
    rack = [len(index) if process.rack is None else index[process.rack] for process in processes]
    return index, np.array(rack, dtype=np.int64)


def _tag_classes(
    processes: Sequence[StreamsProcess], tags: Sequence[str]
) -> tuple[tuple[tuple[str | None, ...], ...], Longs]:
    """The distinct tag values, and the index of each process among them."""
    values = [tuple(process.tags.get(tag) for tag in tags) for process in processes]
    classes = sorted(
        set(values), key=lambda each: [(value is not None, value or "") for value in each]
    )
    return tuple(classes), np.array([classes.index(each) for each in values], dtype=np.int64)


def _claims(
    task_index: Mapping[str, int],
    consumers: Sequence[Sequence[StreamsConsumer]],
    consumer_start: Longs,
) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
    """By task: by process, the consumer that ran it, and the consumer that had a standby of it."""
    active: list[dict[int, int]] = [{} for _ in task_index]
    standby: list[dict[int, int]] = [{} for _ in task_index]
    for process, of_process in enumerate(consumers):
        for index, consumer in enumerate(of_process, int(consumer_start[process])):
            for claims, names in ((active, consumer.active), (standby, consumer.standby)):
                for name in names:
                    if name in task_index:
                        claims[task_index[name]].setdefault(process, index)
    return active, standby


def _owners(active: Sequence[Mapping[int, int]]) -> tuple[tuple[int, ...], Longs]:
    """By task: the consumer and the process that ran it; -1 if none did, or if several claim to."""
    consumer = [next(iter(claims.values())) if len(claims) == 1 else NOBODY for claims in active]
    process = [next(iter(claims)) if len(claims) == 1 else NOBODY for claims in active]
    return tuple(consumer), np.array(process, dtype=np.int64)


def _known_lags(
    processes: Sequence[StreamsProcess], task_index: Mapping[str, int], base_lag: Sequence[int]
) -> list[dict[int, int]]:
    """By task: by process, the lag that the process's `lags` or `offset_sums` give, in records."""
    known: list[dict[int, int]] = [{} for _ in task_index]
    for process, member in enumerate(processes):
        for name, position in member.offset_sums.items():
            if name in task_index and _checked(member.id, "offset_sums", name, position):
                task = task_index[name]
                end = base_lag[task]
                # A position beyond the end belongs to another log: its state is worth nothing.
                known[task][process] = end - position if position <= end < UNKNOWN else end
        for name, lag in member.lags.items():
            if name in task_index and _checked(member.id, "lags", name, lag):
                known[task_index[name]][process] = lag
    return known


def _copies(
    tasks: Sequence[Task],
    known_lags: Sequence[Mapping[int, int]],
    base_lag: Sequence[int],
    active: Sequence[Mapping[int, int]],
    standby: Sequence[Mapping[int, int]],
    acceptable_lag: int,
) -> tuple[tuple[TaskCopy, ...], ...]:
    """By task: its copies by ascending process; none of a stateless task."""
    found: list[tuple[TaskCopy, ...]] = []
    for task, lags in enumerate(known_lags):
        if not tasks[task].stateful:
            found.append(())
            continue
        only_owner = len(active[task]) == 1
        copies = []
        for process in sorted({*lags, *active[task], *standby[task]}):
            ran = process in active[task] and only_owner
            lag = lags.get(process, 0 if ran else base_lag[task])
            copies.append(
                TaskCopy(
                    process=process,
                    lag=lag,
                    active=ran,
                    standby=process in standby[task],
                    caught_up=lag <= acceptable_lag,
                )
            )
        found.append(tuple(copies))
    return tuple(found)


def _checked(process: str, field: str, task: str, value: Any) -> bool:
    """Return True for a valid lag or position.

    Raises:
        ProblemError: it is not an integer from 0 up.
    """
    if not _is_offset(value):
        raise ProblemError(
            f"process {process!r}: {field} of {task!r} must be an integer from 0 up, not {value!r}"
        )
    return True


def _misses(tasks: Sequence[Task], field: str, rack_index: Mapping[str, int]) -> Longs:
    """By task and rack: how many of the task's partitions have no replica there.

    Partitions of unknown racks do not count.
    """
    rack_sets: dict[frozenset[str], int] = {}
    task_of: list[int] = []
    set_of: list[int] = []
    for index, task in enumerate(tasks):
        for racks in getattr(task, field):
            if isinstance(racks, str) or not isinstance(racks, Collection):
                raise ProblemError(
                    f"task {task.id!r}: {field} must be a list of racks for each partition,"
                    f" but has {racks!r}"
                )
            if racks:
                task_of.append(index)
                set_of.append(rack_sets.setdefault(frozenset(racks), len(rack_sets)))
    missed = np.ones((len(rack_sets), len(rack_index) + 1), dtype=np.int64)
    for racks, number in rack_sets.items():
        missed[number, [rack_index[rack] for rack in racks if rack in rack_index]] = 0
    misses = np.zeros((len(tasks), len(rack_index) + 1), dtype=np.int64)
    np.add.at(misses, np.array(task_of, dtype=np.int64), missed[np.array(set_of, dtype=np.int64)])
    return misses


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= UNKNOWN
