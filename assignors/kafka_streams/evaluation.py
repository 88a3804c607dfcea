"""Evaluation of a task plan: its score, where less is better throughout, and its violations.

Guarantees: where there is nothing to measure (no racks, no tasks) a figure is None, never a
flattering 0. Correctness is defined once, in `plan_violations`: the tests hold every plan to it,
and so may whoever carries a plan out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from levelwind.assignors.kafka_streams.task_model import (
    StreamsProcess,
    StreamsSettings,
    Task,
    TaskPlan,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlanScore:
    """Scores of a plan: evenness, rack locality and disruption."""

    active_per_thread: float | None
    """Active tasks per thread of the most loaded process; None without processes."""
    spread: int
    """Most minus fewest active tasks of a thread."""
    stateful_spread: int
    """Most minus fewest stateful active tasks of a thread."""
    cross_rack: float | None
    """Share of source partitions without a replica in the rack of the process that runs them.

    Counted where both racks are known; None where none are.
    """
    moved: int
    """Tasks that run on another process than before."""
    standbys: int
    """Standby copies."""
    warmups: int
    """Warm-up copies."""

    def as_json(self) -> dict[str, float | None]:
        """The figures by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def score_plan(
    tasks: Iterable[Task], processes: Sequence[StreamsProcess], plan: TaskPlan
) -> TaskPlanScore:
    """Score a plan against what ran before."""
    task_by_id = {task.id: task for task in tasks}
    thread_of = {
        task: (process, consumer)
        for process, consumer, role, task in plan.rows()
        if role == "active"
    }
    roles = Counter(role for _, _, role, _ in plan.rows())
    active = Counter(thread_of.values())
    stateful = Counter(thread for task, thread in thread_of.items() if task_by_id[task].stateful)
    threads = [(process.id, consumer.id) for process in processes for consumer in process.consumers]
    return TaskPlanScore(
        active_per_thread=_active_per_thread(processes, active),
        spread=_spread(active[thread] for thread in threads),
        stateful_spread=_spread(stateful[thread] for thread in threads),
        cross_rack=_cross_rack_share(task_by_id, processes, thread_of),
        moved=_moved_tasks(processes, thread_of),
        standbys=roles["standby"],
        warmups=roles["warmup"],
    )


def _active_per_thread(
    processes: Sequence[StreamsProcess], active: Mapping[tuple[str, str], int]
) -> float | None:
    """Active tasks per thread of the most loaded process."""
    loads = [
        sum(active[process.id, consumer.id] for consumer in process.consumers)
        / len(process.consumers)
        for process in processes
    ]
    return round(max(loads), 6) if loads else None


def _spread(counts: Iterable[int]) -> int:
    values = list(counts)
    return max(values) - min(values) if values else 0


def _cross_rack_share(
    tasks: Mapping[str, Task],
    processes: Sequence[StreamsProcess],
    thread_of: Mapping[str, tuple[str, str]],
) -> float | None:
    """Share of source partitions without a replica in their process's rack."""
    rack = {process.id: process.rack for process in processes}
    local = [
        rack[process] in racks
        for task, (process, _) in thread_of.items()
        if rack[process] is not None
        for racks in tasks[task].input_racks
        if racks
    ]
    return round(1 - sum(local) / len(local), 6) if local else None


def _moved_tasks(
    processes: Sequence[StreamsProcess], thread_of: Mapping[str, tuple[str, str]]
) -> int:
    """Tasks that some process ran before and that another process runs now."""
    before: dict[str, set[str]] = defaultdict(set)
    for process in processes:
        for consumer in process.consumers:
            for task in consumer.active:
                before[task].add(process.id)
    return sum(
        task in before and process not in before[task] for task, (process, _) in thread_of.items()
    )


@dataclass(slots=True)
class _PlannedCopies:
    """The copies in a plan: processes by task, and their numbers."""

    active: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By task: the processes that run it."""
    inactive: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By task: the processes with a standby or a warm-up of it."""
    standbys: Counter[str] = field(default_factory=Counter)
    """By task: number of standbys."""
    warmups: int = 0
    """Warm-ups of all tasks."""

    @classmethod
    def of(cls, plan: TaskPlan) -> "_PlannedCopies":
        """Collect the copies of a plan."""
        copies = cls()
        for process, _, role, task in plan.rows():
            (copies.active if role == "active" else copies.inactive)[task].append(process)
            copies.standbys[task] += role == "standby"
            copies.warmups += role == "warmup"
        return copies


def plan_violations(
    tasks: Iterable[Task],
    processes: Iterable[StreamsProcess],
    settings: StreamsSettings,
    plan: TaskPlan,
) -> list[str]:
    """Return a sentence for everything that is wrong with a plan; none if the plan is correct."""
    task_by_id = {task.id: task for task in tasks}
    process_by_id = {process.id: process for process in processes}
    found = _unknown_names(task_by_id, process_by_id, plan)
    copies = _PlannedCopies.of(plan)
    max_standbys = min(settings.standby_replicas, len(process_by_id) - 1)
    if process_by_id:
        for task in task_by_id.values():
            found += _task_violations(task, copies, max_standbys if task.stateful else 0)
    if copies.warmups > settings.max_warmups:
        found.append(
            f"{copies.warmups} warm-ups are more than the budget of {settings.max_warmups}"
        )
    return found


def _task_violations(task: Task, copies: _PlannedCopies, wanted: int) -> Iterable[str]:
    """Violations by the copies of one task, of which `wanted` should be standbys."""
    active, inactive = copies.active[task.id], copies.inactive[task.id]
    if len(active) != 1:
        yield f"task {task.id!r}: active on {active}; it must be on one process"
    on = active + inactive
    if len(set(on)) < len(on):
        yield f"task {task.id!r}: two copies on one process: {on}"
    if copies.standbys[task.id] != wanted:
        yield f"task {task.id!r}: {copies.standbys[task.id]} standbys where {wanted} are wanted"
    if not task.stateful and inactive:
        yield f"task {task.id!r}: has no state, yet copies on {inactive}"


def _unknown_names(
    tasks: Mapping[str, Task], processes: Mapping[str, StreamsProcess], plan: TaskPlan
) -> list[str]:
    """Tasks that are not in the problem, and processes or consumers that differ from it."""
    found = [f"task {task!r}: is unknown" for _, _, _, task in plan.rows() if task not in tasks]
    if plan.processes.keys() != processes.keys():
        return [
            *found,
            f"processes: the plan is for {sorted(plan.processes)}, not {sorted(processes)}",
        ]
    for name, process in processes.items():
        consumers = {consumer.id for consumer in process.consumers}
        if plan.processes[name].keys() != consumers:
            found.append(
                f"process {name!r}: the plan is for {sorted(plan.processes[name])},"
                f" not {sorted(consumers)}"
            )
    return found
