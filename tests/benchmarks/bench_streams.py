"""`streams` at several sizes, beside the coordinator's own assignor in a warm JVM, in one run.

    python tests/benchmarks/bench_streams.py [--most 100000] [--least 10000]

Kafka's assignor knows neither racks, tags, lags nor warm-ups, so levelwind's first column does
without them, too ("plain"); the others add racks under each strategy, and tags. Times are the least
of several repeats, alternating between Kafka and levelwind, in milliseconds.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from levelwind.assignors.kafka_streams import StreamsConsumer, StreamsProcess, StreamsSettings, Task
from levelwind.assignors.kafka_streams.application import Application
from levelwind.assignors.kafka_streams.assign import assign, plan_application

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.groups.applications import apply_plan
from levelwind_testing.kafka.kafka_oracle import Kafka
from levelwind_testing.kafka.streams_oracle import StreamsCoordinator

REPEAT = 5
RACKS = "abc"


@dataclass(frozen=True)
class ApplicationSize:
    tasks: int
    processes: int
    threads: int
    subtopologies: int
    standbys: int


SIZES = [
    ApplicationSize(100, 10, 2, 2, 1),
    ApplicationSize(1_000, 100, 2, 5, 1),
    ApplicationSize(10_000, 100, 4, 10, 1),
    ApplicationSize(10_000, 1_000, 1, 10, 0),
    ApplicationSize(10_000, 1_000, 1, 10, 1),
    ApplicationSize(10_000, 1_000, 4, 10, 2),
    ApplicationSize(10_000, 1_000, 1, 100, 1),
    ApplicationSize(100_000, 1_000, 4, 10, 1),
]


def tasks_of(size: ApplicationSize) -> list[Task]:
    """Tasks: one subtopology in four is stateless; replicas are in two of three racks."""
    return [
        Task(
            subtopology=str(subtopology),
            partition=partition,
            stateful=subtopology % 4 != 3,
            input_racks=[(RACKS[partition % 3], RACKS[(partition + 1) % 3])],
            changelog_racks=[(RACKS[partition % 3], RACKS[(partition + 2) % 3])],
            end_offset_sum=1_000_000,
        )
        for subtopology in range(size.subtopologies)
        for partition in range(size.tasks // size.subtopologies)
    ]


def processes_of(size: ApplicationSize) -> list[StreamsProcess]:
    return [
        StreamsProcess(
            id=f"p{number:05}",
            rack=RACKS[number % 3],
            tags={"zone": RACKS[number % 3]},
            consumers=[
                StreamsConsumer(id=f"p{number:05}-{thread}") for thread in range(size.threads)
            ],
        )
        for number in range(size.processes)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=10_000, help="largest number of tasks")
    parser.add_argument("--least", type=int, default=0, help="smallest number of tasks")
    arguments = parser.parse_args()
    kafka = Kafka()
    coordinator = StreamsCoordinator(kafka)
    columns = ("Kafka", "plain", "+ names", "min_traffic", "balance_sub.", "+ tags")
    print(
        f"{'tasks x processes x threads':28} {'subs':>4} {'R':>2}  {'case':16}",
        *(f"{column:>12}" for column in columns),
    )
    try:
        for size in SIZES:
            if arguments.least <= size.tasks <= arguments.most:
                measure(size, coordinator)
    finally:
        kafka.close()


def measure(size: ApplicationSize, coordinator: StreamsCoordinator) -> None:
    tasks, processes = tasks_of(size), processes_of(size)
    plain = StreamsSettings(standby_replicas=size.standbys)
    stayed = apply_plan(processes, assign(tasks, processes, plain))
    for case, current in (
        ("from scratch", processes),
        ("nothing changed", stayed),
        ("one left", stayed[1:]),
    ):
        group = coordinator.prepared(tasks, current, plain)
        runs: list[Callable[[], object]] = [lambda group=group: coordinator.call(*group)]
        runs.append(plan_alone(tasks, current, plain))
        runs.append(lambda current=current: assign(tasks, current, plain))
        runs.append(plan_alone(tasks, current, replace(plain, rack_strategy="min_traffic")))
        runs.append(plan_alone(tasks, current, replace(plain, rack_strategy="balance_subtopology")))
        runs.append(
            plan_alone(
                tasks,
                current,
                replace(plain, rack_strategy="balance_subtopology", rack_aware_tags=("zone",)),
            )
        )
        for _ in range(REPEAT):
            runs[0]()  # warm up the JVM
        least = [float("inf")] * len(runs)
        for _ in range(REPEAT):
            for number, run in enumerate(runs):
                begun = perf_counter()
                run()
                least[number] = min(least[number], (perf_counter() - begun) * 1000)
        dimensions = f"{size.tasks} x {size.processes} x {size.threads}"
        print(
            f"{dimensions:28} {size.subtopologies:4} {size.standbys:2}  {case:16}",
            *(f"{ms:12.1f}" for ms in least),
            flush=True,
        )


def plan_alone(
    tasks: Sequence[Task], processes: Sequence[StreamsProcess], settings: StreamsSettings
) -> Callable[[], object]:
    """A call of the plan alone, its columns built before."""
    app = Application.build(tasks, processes, settings)
    return lambda: plan_application(app, settings)


if __name__ == "__main__":
    main()
