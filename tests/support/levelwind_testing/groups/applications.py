"""Streams applications for tests: random ones, and what Kafka Streams makes of a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from levelwind.assignors.kafka_streams import (
    StreamsConsumer,
    StreamsProcess,
    StreamsSettings,
    Task,
    TaskPlan,
)

RACKS = ("a", "b", "c")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsCase:
    """Tasks, processes and settings."""

    tasks: list[Task]
    processes: list[StreamsProcess]
    settings: StreamsSettings


def tasks_of(
    subtopologies: int, partitions: int, *, stateful: bool = True, end: int | None = 1_000_000
) -> list[Task]:
    """Tasks of some subtopologies of equal size."""
    return [
        Task(subtopology=str(number), partition=partition, stateful=stateful, end_offset_sum=end)
        for number in range(subtopologies)
        for partition in range(partitions)
    ]


def process(
    name: str, *, active=(), standby=(), lags: Mapping[str, int] | None = None, threads=1, **fields
) -> StreamsProcess:
    """A process whose first thread had all of its tasks."""
    consumers = [StreamsConsumer(id=f"{name}-1", active=active, standby=standby)]
    consumers += [StreamsConsumer(id=f"{name}-{number}") for number in range(2, threads + 1)]
    return StreamsProcess(id=name, consumers=consumers, lags=lags or {}, **fields)


def random_case(random: Random, *, tasks: int = 8, processes: int = 4) -> StreamsCase:
    """A random case in which everything varies.

    State, claims, lags, racks, tags, threads and settings do. Some tasks have two owners, and some
    processes claim unknown tasks.
    """
    task_list = []
    for subtopology in range(random.randint(1, 4)):
        stateful = random.random() < 0.75
        task_list += [
            Task(
                subtopology=str(subtopology),
                partition=partition,
                stateful=stateful,
                input_racks=[
                    random.sample(RACKS, random.randint(0, 2)) for _ in range(random.randint(0, 2))
                ],
                changelog_racks=[random.sample(RACKS, random.randint(0, 2))] if stateful else [],
                end_offset_sum=random.choice([None, 0, 50_000, 1_000_000]),
            )
            for partition in range(random.randint(1, tasks))
        ]
    names = [task.id for task in task_list] + ["9_9"]
    process_list = []
    for number in range(random.randint(1, processes)):
        consumers = [
            StreamsConsumer(
                id=f"p{number}-{thread}",
                active=random.sample(names, random.randint(0, len(names) // 3)),
                standby=random.sample(names, random.randint(0, len(names) // 3)),
            )
            for thread in range(random.randint(1, 3))
        ]
        lagging = random.sample(names, random.randint(0, len(names)))
        process_list.append(
            StreamsProcess(
                id=f"p{number}",
                consumers=consumers,
                rack=random.choice([None, *RACKS])
                if random.random() < 0.3
                else random.choice(RACKS),
                tags={
                    tag: random.choice("xyz")
                    for tag in ("zone", "cluster")
                    if random.random() < 0.9
                },
                lags={name: random.choice([0, 100, 20_000, 500_000]) for name in lagging},
                offset_sums={
                    name: random.randint(0, 60_000)
                    for name in random.sample(names, len(names) // 2)
                },
            )
        )
    return StreamsCase(tasks=task_list, processes=process_list, settings=random_settings(random))


def random_settings(random: Random) -> StreamsSettings:
    """Random settings."""
    return StreamsSettings(
        standby_replicas=random.randint(0, 3),
        max_warmups=random.randint(1, 4),
        acceptable_recovery_lag=random.choice([0, 10_000]),
        rack_aware_tags=random.choice([(), ("zone",), ("zone", "cluster")]),
        traffic_cost=random.choice([0, 1, 10]),
        non_overlap_cost=random.choice([0, 1, 10]),
        rack_strategy=random.choice(["none", "min_traffic", "balance_subtopology"]),
    )


def shuffled(case: StreamsCase, random: Random) -> StreamsCase:
    """The same case in another order."""
    process_list = [
        replace(each, consumers=random.sample(list(each.consumers), len(each.consumers)))
        for each in random.sample(case.processes, len(case.processes))
    ]
    return StreamsCase(
        tasks=random.sample(case.tasks, len(case.tasks)),
        processes=process_list,
        settings=case.settings,
    )


def apply_plan(
    processes: Sequence[StreamsProcess], plan: TaskPlan, *, lag: int = 0
) -> list[StreamsProcess]:
    """The processes after they carried a plan out.

    Each copy that is not active is `lag` records behind.
    """
    after = []
    for each in processes:
        consumers = plan.processes[each.id]
        followed = [
            task
            for assignment in consumers.values()
            for task in assignment.standby + assignment.warmup
        ]
        after.append(
            replace(
                each,
                consumers=[
                    StreamsConsumer(
                        id=name,
                        active=assignment.active,
                        standby=assignment.standby + assignment.warmup,
                    )
                    for name, assignment in consumers.items()
                ],
                lags=dict.fromkeys(followed, lag),
                offset_sums={},
            )
        )
    return after


def processes_by_task(
    plan: TaskPlan, role: str = "active"
) -> dict[str, str] | dict[str, list[str]]:
    """By task: the process that runs it, or the processes with copies of another role."""
    if role == "active":
        return {task: name for name, _, kind, task in plan.rows() if kind == "active"}
    found: dict[str, list[str]] = {}
    for name, _, kind, task in plan.rows():
        if kind == role:
            found.setdefault(task, []).append(name)
    return found
