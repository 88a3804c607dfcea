"""Score of a task plan, where less is better throughout.

Guarantees: where there is nothing to measure (no racks, no tasks) a figure is None, never a
flattering 0.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from levelwind.assignors.kafka_streams.task_model import StreamsProcess, Task, TaskPlan


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
