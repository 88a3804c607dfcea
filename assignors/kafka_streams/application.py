"""The problem in columns: names end here.

Law: two problems that differ only in the order of their input are the same `Application`. Tasks are ordered by
subtopology (numbers as numbers) and partition, processes and consumers by id.
Claims of tasks that are not there are left out: a topology changes while its processes run. A task that two processes
claim to have had active is nobody's: which of them wrote last is not known.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assignors.kafka_streams.task_model import (
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Task,
)
from assignors.problem.columns import (
    Bools,
    Longs,
    in_java_order,
    starts,
    utf16,
)
from assignors.problem.inputs import ProblemError

NOBODY = -1
UNKNOWN = 2**63 - 1  # a lag that nothing is known of: further behind than any other


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCopy:
    """State of a task that a process has or had."""

    process: int
    lag: int
    active: bool  # the process ran it
    standby: bool  # the process followed it
    caught_up: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Application:
    """T tasks, S subtopologies, P processes, C consumers, K racks of processes (the last one stands for no rack)."""

    tasks: tuple[str, ...]  # by task
    subtopology: Longs  # T
    stateful: Bools  # T
    input_misses: (
        Longs  # T x K: source partitions without a replica in the rack, where their racks are known
    )
    changelog_misses: Longs  # T x K: the same of changelog partitions
    base_lag: tuple[int, ...]  # by task: of a process without any state
    acceptable_lag: int  # not further behind is caught up

    processes: tuple[str, ...]  # by process
    rack: Longs  # P: 0 … K-1
    threads: Longs  # P: consumers of each
    tag_class: Longs  # P: processes of equal tags are of one class
    tag_values: tuple[
        tuple[str | None, ...], ...
    ]  # by class: the values of the settings' tags, in their order

    consumers: tuple[str, ...]  # by consumer: process by process
    consumer_start: (
        Longs  # P+1: the consumers of process p are consumer_start[p] : consumer_start[p + 1]
    )

    copies: tuple[tuple[TaskCopy, ...], ...]  # by task, ascending processes
    owner: Longs  # T: the process that had it active; -1 nobody or not known
    active_consumer: tuple[int, ...]  # by task: who ran it; -1 nobody
    standby_consumers: tuple[
        Mapping[int, int], ...
    ]  # by task: consumer by process that followed it

    @classmethod
    def build(
        cls, tasks: Iterable[Task], processes: Iterable[StreamsProcess], settings: StreamsSettings
    ) -> "Application":
        """Intern the names and lay out the columns.

        Raises:
            ProblemError: the message names the task or process, the field, and what is expected there.
        """
        work = tasks_in_order(tasks)
        people = processes_in_order(processes)
        number = {task.id: index for index, task in enumerate(work)}
        consumers = [consumers_in_order(process) for process in people]
        consumer_start = starts([len(those) for those in consumers])
        racks = in_java_order({process.rack for process in people if process.rack is not None})
        rack_number = {rack: index for index, rack in enumerate(racks)}
        tags = [
            tuple(process.tags.get(tag) for tag in settings.rack_aware_tags) for process in people
        ]
        classes = sorted(set(tags), key=lambda values: [value or "" for value in values])
        subtopologies = {
            name: index for index, name in enumerate(dict.fromkeys(t.subtopology for t in work))
        }
        base_lag = tuple(
            UNKNOWN if task.end_offset_sum is None else task.end_offset_sum for task in work
        )
        active, standby = _claims(number, consumers, consumer_start)
        owner_consumer = _owners(len(work), active)
        process_of = np.repeat(np.arange(len(people)), np.diff(consumer_start))
        return cls(
            tasks=tuple(number),
            subtopology=np.array(
                [subtopologies[task.subtopology] for task in work], dtype=np.int64
            ),
            stateful=np.array([task.stateful for task in work], dtype=np.bool_),
            input_misses=_misses(work, "input_racks", rack_number),
            changelog_misses=_misses(work, "changelog_racks", rack_number),
            base_lag=base_lag,
            acceptable_lag=settings.acceptable_recovery_lag,
            processes=tuple(process.id for process in people),
            rack=np.array(
                [len(racks) if p.rack is None else rack_number[p.rack] for p in people],
                dtype=np.int64,
            ),
            threads=np.diff(consumer_start),
            tag_class=np.array([classes.index(values) for values in tags], dtype=np.int64),
            tag_values=tuple(classes),
            consumers=tuple(consumer.id for those in consumers for consumer in those),
            consumer_start=consumer_start,
            copies=_copies(work, people, number, base_lag, active, standby, settings),
            owner=np.array(
                [NOBODY if c < 0 else process_of[c] for c in owner_consumer], dtype=np.int64
            ),
            active_consumer=tuple(owner_consumer),
            standby_consumers=tuple(standby),
        )

    def lag(self, task: int, process: int) -> int:
        """How far a process is behind a task."""
        for copy in self.copies[task]:
            if copy.process == process:
                return copy.lag
        return self.base_lag[task]

    def caught_up(self, task: int, process: int) -> bool:
        """Whether a process is near enough to the end of a task's changelogs to run it."""
        return self.lag(task, process) <= self.acceptable_lag


def tasks_in_order(tasks: Iterable[Task]) -> list[Task]:
    """The tasks in Kafka's order, each once."""
    by_id: dict[str, Task] = {}
    for task in tasks:
        if not isinstance(task.subtopology, str) or not _whole(task.partition):
            raise ProblemError(
                f"task {task.subtopology!r}, {task.partition!r}: needs a subtopology (a string) and a partition from 0 up"
            )
        if task.id in by_id:
            raise ProblemError(f"task {task.id!r}: given twice; give each task once")
        if task.end_offset_sum is not None and not _whole(task.end_offset_sum):
            raise ProblemError(
                f"task {task.id!r}: end_offset_sum must be an integer from 0 up, not {task.end_offset_sum!r}"
            )
        by_id[task.id] = task
    return sorted(
        by_id.values(), key=lambda task: (*subtopology_order(task.subtopology), task.partition)
    )


def subtopology_order(name: str) -> tuple[bool, int, bytes]:
    """Numbers first, as numbers; then names."""
    plain = name.isascii() and name.isdigit() and len(name) < 10
    return not plain, int(name) if plain else 0, utf16(name)


def processes_in_order(processes: Iterable[StreamsProcess]) -> list[StreamsProcess]:
    """The processes by id, each once and with a thread."""
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
    """A process's consumers by id, each once."""
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


def _claims(
    number: Mapping[str, int], consumers: Sequence[Sequence[StreamsConsumer]], consumer_start: Longs
) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
    """By task: the consumer by process that ran it, and that followed it."""
    active: list[dict[int, int]] = [{} for _ in number]
    standby: list[dict[int, int]] = [{} for _ in number]
    for process, those in enumerate(consumers):
        for index, consumer in enumerate(those, int(consumer_start[process])):
            for claimed, said in ((active, consumer.active), (standby, consumer.standby)):
                for name in said:
                    if name in number:
                        claimed[number[name]].setdefault(process, index)
    return active, standby


def _owners(count: int, active: Sequence[Mapping[int, int]]) -> list[int]:
    return [
        next(iter(active[task].values())) if len(active[task]) == 1 else NOBODY
        for task in range(count)
    ]


def _copies(
    work: Sequence[Task],
    people: Sequence[StreamsProcess],
    number: Mapping[str, int],
    base_lag: Sequence[int],
    active: Sequence[Mapping[int, int]],
    standby: Sequence[Mapping[int, int]],
    settings: StreamsSettings,
) -> tuple[tuple[TaskCopy, ...], ...]:
    told: list[dict[int, int]] = [{} for _ in work]
    for process, said in enumerate(people):
        for name, position in said.offset_sums.items():
            if name in number and _checked(said.id, "offset_sums", name, position):
                end = base_lag[number[name]]
                # A position beyond the end is of another log: its state is worth nothing.
                told[number[name]][process] = end - position if position <= end < UNKNOWN else end
        for name, lag in said.lags.items():
            if name in number and _checked(said.id, "lags", name, lag):
                told[number[name]][process] = lag
    found: list[tuple[TaskCopy, ...]] = []
    for task in range(len(work)):
        if not work[task].stateful:
            found.append(())
            continue
        only_owner = len(active[task]) == 1
        one = []
        for process in sorted({*told[task], *active[task], *standby[task]}):
            ran = process in active[task]
            lag = told[task].get(process, 0 if ran and only_owner else base_lag[task])
            one.append(
                TaskCopy(
                    process=process,
                    lag=lag,
                    active=ran and only_owner,
                    standby=process in standby[task],
                    caught_up=lag <= settings.acceptable_recovery_lag,
                )
            )
        found.append(tuple(one))
    return tuple(found)


def _checked(process: str, field: str, task: str, value: Any) -> bool:
    if not _whole(value):
        raise ProblemError(
            f"process {process!r}: {field} of {task!r} must be an integer from 0 up, not {value!r}"
        )
    return True


def _misses(work: Sequence[Task], field: str, rack_number: Mapping[str, int]) -> Longs:
    """For each task and rack: how many of its partitions have no replica there."""
    kinds: dict[frozenset[str], int] = {}  # distinct sets of racks
    at: list[int] = []
    of: list[int] = []
    for index, task in enumerate(work):
        for racks in getattr(task, field):
            if isinstance(racks, str) or not isinstance(racks, Collection):
                raise ProblemError(
                    f"task {task.id!r}: {field} must be a list of racks for each partition, but has {racks!r}"
                )
            if racks:
                at.append(index)
                of.append(kinds.setdefault(frozenset(racks), len(kinds)))
    missed = np.ones((len(kinds), len(rack_number) + 1), dtype=np.int64)
    for racks, kind in kinds.items():
        missed[kind, [rack_number[rack] for rack in racks if rack in rack_number]] = 0
    misses = np.zeros((len(work), len(rack_number) + 1), dtype=np.int64)
    np.add.at(misses, np.array(at, dtype=np.int64), missed[np.array(of, dtype=np.int64)])
    return misses


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= UNKNOWN
