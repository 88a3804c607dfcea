"""What a plan is worth, less being better throughout; and what makes it correct.

Law: where there is nothing to measure (no racks, no tasks) a figure is None, never a flattering 0. Correctness is said once,
in `violations`: the tests hold every plan to it, and so may who carries one out.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assignors.kafka_streams.task_model import (
    StreamsProcess,
    StreamsSettings,
    Task,
    TaskPlan,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlanScore:
    """How even, local and disruptive a plan is."""

    active_per_thread: float | None  # of the most loaded process
    spread: int  # most minus fewest active tasks of a thread
    stateful_spread: int  # the same of stateful ones
    cross_rack: (
        float | None
    )  # share of source partitions, racks known on both sides, without a replica in the rack
    moved: int  # tasks that somebody ran and that another process runs now
    standbys: int
    warmups: int

    def as_json(self) -> dict[str, float | None]:
        """The figures by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def score_plan(
    tasks: Iterable[Task], processes: Sequence[StreamsProcess], plan: TaskPlan
) -> TaskPlanScore:
    """Score a plan against what ran before."""
    known = {task.id: task for task in tasks}
    where = {
        task: (process, consumer)
        for process, consumer, role, task in plan.rows()
        if role == "active"
    }
    roles = Counter(role for _, _, role, _ in plan.rows())
    count = Counter(where.values())
    stateful = Counter(at for task, at in where.items() if known[task].stateful)
    threads = [(process.id, consumer.id) for process in processes for consumer in process.consumers]
    loads = [
        sum(count[process.id, consumer.id] for consumer in process.consumers)
        / len(process.consumers)
        for process in processes
    ]
    before: dict[str, set[str]] = {}
    for process in processes:
        for consumer in process.consumers:
            for task in consumer.active:
                before.setdefault(task, set()).add(process.id)
    return TaskPlanScore(
        active_per_thread=round(max(loads), 6) if loads else None,
        spread=_spread(count[thread] for thread in threads),
        stateful_spread=_spread(stateful[thread] for thread in threads),
        cross_rack=_cross_rack(known, {process.id: process.rack for process in processes}, where),
        moved=sum(
            1 for task, (process, _) in where.items() if process not in before.get(task, {process})
        ),
        standbys=roles["standby"],
        warmups=roles["warmup"],
    )


def _spread(counts: Iterable[int]) -> int:
    those = list(counts)
    return max(those) - min(those) if those else 0


def _cross_rack(
    tasks: dict[str, Task], rack: dict[str, str | None], where: dict[str, tuple[str, str]]
) -> float | None:
    local = [
        rack[process] in racks
        for task, (process, _) in where.items()
        if rack[process] is not None
        for racks in tasks[task].input_racks
        if racks
    ]
    return round(1 - sum(local) / len(local), 6) if local else None


def plan_violations(
    tasks: Iterable[Task],
    processes: Iterable[StreamsProcess],
    settings: StreamsSettings,
    plan: TaskPlan,
) -> list[str]:
    """Everything that is wrong with a plan, in words; empty when it is right."""
    known = {task.id: task for task in tasks}
    people = {process.id: process for process in processes}
    wrong = _strangers(known, people, plan)
    active: dict[str, list[str]] = defaultdict(list)
    others: dict[str, list[str]] = defaultdict(list)
    standbys: Counter[str] = Counter()
    warmups = 0
    for process, _, role, name in plan.rows():
        (active if role == "active" else others)[name].append(process)
        standbys[name] += role == "standby"
        warmups += role == "warmup"
    for name, task in known.items() if people else ():
        if len(active[name]) != 1:
            wrong.append(f"task {name!r}: active on {active[name]}; it must be on one process")
        copies = active[name] + others[name]
        if len(set(copies)) < len(copies):
            wrong.append(f"task {name!r}: two copies on one process: {copies}")
        wanted = min(settings.standby_replicas, len(people) - 1) if task.stateful else 0
        if standbys[name] != wanted:
            wrong.append(f"task {name!r}: {standbys[name]} standbys where {wanted} are wanted")
        if not task.stateful and others[name]:
            wrong.append(f"task {name!r}: has no state, yet copies on {others[name]}")
    if warmups > settings.max_warmups:
        wrong.append(f"{warmups} warm-ups are more than the budget of {settings.max_warmups}")
    return wrong


def _strangers(
    tasks: dict[str, Task], processes: dict[str, StreamsProcess], plan: TaskPlan
) -> list[str]:
    wrong = [f"task {task!r}: is unknown" for _, _, _, task in plan.rows() if task not in tasks]
    if plan.processes.keys() != processes.keys():
        return [
            *wrong,
            f"processes: the plan is for {sorted(plan.processes)}, not {sorted(processes)}",
        ]
    for name, process in processes.items():
        consumers = {consumer.id for consumer in process.consumers}
        if plan.processes[name].keys() != consumers:
            wrong.append(
                f"process {name!r}: the plan is for {sorted(plan.processes[name])}, not {sorted(consumers)}"
            )
    return wrong
