"""Correctness of a task plan of Kafka Streams, defined once for the tests of `kafka_streams`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from levelwind.assignors.kafka_streams.task_model import (
    StreamsProcess,
    StreamsSettings,
    Task,
    TaskPlan,
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
