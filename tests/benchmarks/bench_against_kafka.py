"""Strategies beside Kafka's classes of the same name, alternating in one run; least milliseconds.

    python tests/benchmarks/bench_against_kafka.py          # the smaller cells: some seven minutes
    python tests/benchmarks/bench_against_kafka.py --whole  # the whole grid: about an hour
    python tests/benchmarks/bench_against_kafka.py --cells 100x100x10,1000x100x100 \\
        --strategies range,sticky --topics all --racks 3

A cell is members x topics x partitions of a topic. Each is run with equal subscriptions and with
one fifth of the topics for each member, with 2 and 3 racks of replicas of 3, from scratch and after
one member left. Kafka is warmed up.

*Plan* is a strategy alone: levelwind's from columns to a column, Kafka's assign().

*Names* is from what is ready before a plan is needed, to each member's partitions of each topic,
written out. Ready are the indexed topics (levelwind's `TopicIndex`, Kafka's Cluster and metadata
image), and a value for each member with the names of the topics that it reads and owns. Levelwind's
goes through `Group.build`, which checks and sorts all members again, to dictionaries. The
consumer's classes do just that in assign(), from Subscriptions to lists of TopicPartition, so
their two times are the same.

The server's classes do less: they start from topic ids and an index of the owners, both of which
the broker maintains, and may answer by ranges that are not written out. Their time by names is that
of the broker's TargetAssignmentBuilder, from members with names of topics to a record of partitions
for each member whose assignment changed; nothing is written for the others. They consider neither
racks nor generations; levelwind's do.

`> 60000`: Kafka's call was given up after that time. `unrun`: a cell that is no larger, of the same
strategy, subscriptions and state, was given up before. The last column marks what is slower than
Kafka: P the plan alone, N names to names.
"""

import argparse
import logging
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.topic_index import TopicIndex
from levelwind.assignors.registry import STRATEGIES, Strategy

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.kafka.kafka_oracle import CLIENT_SIDE, Kafka
from levelwind_testing.processes.coordinator_cases import CoordinatorCases, Stated

CELLS = "100x100x10,1000x100x100,1000x1000x10"
GRID = f"{CELLS},10000x100x100,1000x1000x100"
COMPARED = "range,roundrobin,sticky,cooperative-sticky,uniform,server-range"
RACKS = ["a", "b", "c"]
WARM_UP = 30
REPEAT_SECONDS = 0.5
"""Time for which a cell is repeated beyond `--repeat`: short calls are noisier."""
MAX_REPEATS = 40
HEAD = (
    f"{'strategy':19}{'cell':>14} {'topics':>6} {'racks':>5} {'state':>9}{'plan':>10}{'names':>10}"
    f"{'Kafka plan':>12}{'names':>10}{'x plan':>9}{'x names':>9}"
)


class PlanProblem(NamedTuple):
    """A group to plan for; the first four fields are its row in the output."""

    cell: str
    subscription: str
    racks: int
    state: str
    topics: dict[str, Topic]
    members: list[Member]

    def __str__(self) -> str:
        return f"{self.cell:>14} {self.subscription:>6} {self.racks:>5} {self.state:>9}"


class Calls(NamedTuple):
    """Kafka's calls for a problem that the Java process already has."""

    plan: Callable[[], Any]
    names: Callable[[], Any] | None
    """None: the plan is already one by names."""


class KafkaAssignors:
    """Kafka's assignors in a Java process, which is replaced when a call takes too long."""

    def __init__(self, strategies: list[str], limit: float) -> None:
        self._strategies = strategies
        self._limit = limit
        self._start()

    def _start(self) -> None:
        self._kafka = Kafka("-Xmx6g")
        self._coordinator = CoordinatorCases(self._kafka)
        self._stated: tuple[PlanProblem, Stated] | None = None
        for problem in problems(["30x30x10"], ["all", "1/5"], [2, 3], ["scratch", "one left"]):
            for name in self._strategies:
                for call in filter(None, self.calls(name, problem)):
                    for _ in range(WARM_UP):
                        call()

    def calls(self, name: str, problem: PlanProblem) -> Calls:
        """The calls of the assignor of this name."""
        if name in CLIENT_SIDE:
            prepared = self._kafka.prepared(name, problem.topics, problem.members)
            return Calls(lambda: self._kafka.call(name, *prepared), None)
        if self._stated is None or self._stated[0] is not problem:
            self._stated = problem, self._coordinator.stated(problem.topics, problem.members)
        stated = self._stated[1]
        return Calls(
            lambda: self._coordinator.call(name, stated),
            lambda: self._coordinator.call_by_names(name, stated),
        )

    def timed(self, call: Callable[[], Any]) -> float | None:
        """Milliseconds that a call takes; None: it was given up."""
        took: list[float] = []
        errors: list[Exception] = []

        def work() -> None:
            try:
                took.append(timed(call))
            except Exception as error:  # noqa: BLE001 - the waiting thread raises it
                errors.append(error)

        thread = Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._limit)
        if thread.is_alive():
            self._kafka.process.kill()
            self._kafka.process.wait()
            self._start()
            return None
        if errors:
            raise errors[0]
        return took[0]

    def close(self) -> None:
        self._kafka.close()


def main() -> None:
    arguments = parse_arguments()
    logging.disable()  # connections to a process that was given up log errors
    kafka = KafkaAssignors(arguments.strategies, arguments.limit)
    print(HEAD, flush=True)
    given_up: dict[tuple[str, str, str], int] = {}
    marked, measured = [], 0
    for problem in problems(arguments.cells, arguments.topics, arguments.racks, arguments.states):
        for name in arguments.strategies:
            mark = report(kafka, problem, name, arguments, given_up)
            measured += 1
            if mark:
                marked.append(f"{name:19}{problem} {mark}")
    kafka.close()
    print(f"\nslower than Kafka in {len(marked)} of {measured} cells", *marked, sep="\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=split, default=split(CELLS), help=f"of {GRID}, or any")
    parser.add_argument(
        "--whole", action="store_true", help="the whole grid, and a limit of at least 60 s"
    )
    parser.add_argument("--strategies", type=split, default=split(COMPARED))
    parser.add_argument(
        "--topics", type=split, default=split("all,1/5"), help="topics of each member: all, 1/5"
    )
    parser.add_argument(
        "--racks", type=lambda text: [int(count) for count in split(text)], default=[2, 3]
    )
    parser.add_argument("--states", type=split, default=split("scratch,one left"))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--once", type=float, default=5.0, help="seconds from which a call of Kafka is not repeated"
    )
    parser.add_argument(
        "--limit", type=float, default=10.0, help="seconds after which a call of Kafka is given up"
    )
    arguments = parser.parse_args()
    if arguments.whole:
        arguments.cells, arguments.limit = split(GRID), max(arguments.limit, 60.0)
    return arguments


def split(text: str) -> list[str]:
    return text.split(",")


def problems(
    cells: list[str], subscriptions: list[str], racks: list[int], states: list[str]
) -> Iterator[PlanProblem]:
    for cell in cells:
        for subscription in subscriptions:
            for count in racks:
                topics, members = inputs(cell, subscription, count)
                if "scratch" in states:
                    yield PlanProblem(cell, subscription, count, "scratch", topics, members)
                if "one left" in states:
                    group = Group.build(topics, members)
                    owned = STRATEGIES["sticky"](group).to_names(group)
                    stayed = [
                        replace(member, owned=owned[member.id], generation=1)
                        for member in members[1:]
                    ]
                    yield PlanProblem(cell, subscription, count, "one left", topics, stayed)


def inputs(cell: str, subscription: str, racks: int) -> tuple[dict[str, Topic], list[Member]]:
    """Topics and members of a cell; partitions have replicas in this number of racks."""
    member_count, topic_count, partitions = map(int, cell.split("x"))
    draw = random.Random(4)
    names = [f"topic-{number:04}" for number in range(topic_count)]
    topics = {
        name: Topic(
            partitions=partitions,
            replica_racks=[draw.sample(RACKS, racks) for _ in range(partitions)],
        )
        for name in names
    }
    members = [
        Member(
            id=f"member-{number:05}",
            topics=names if subscription == "all" else draw.sample(names, topic_count // 5),
            rack=RACKS[number % 3],
        )
        for number in range(member_count)
    ]
    return topics, members


def report(
    assignors: KafkaAssignors,
    problem: PlanProblem,
    name: str,
    arguments: argparse.Namespace,
    given_up: dict[tuple[str, str, str], int],
) -> str:
    """Measure a strategy and print its line; returns the line's mark.

    `given_up` has the least size at which Kafka was given up, by strategy, subscription and state.
    """
    strategy, topic_index = STRATEGIES[name], TopicIndex.of(problem.topics)
    group = Group.build(topic_index, problem.members)
    kind = name, problem.subscription, problem.state
    given_up_at = given_up.get(kind)
    calls = (
        None
        if given_up_at is not None and given_up_at <= size(problem.cell)
        else assignors.calls(name, problem)
    )
    kafka_text = "unrun" if calls is None else ""
    plan, names, kafka, kafka_names = [], [], [], []
    begun = perf_counter()
    while len(plan) < arguments.repeat or (
        len(plan) < MAX_REPEATS and perf_counter() - begun < REPEAT_SECONDS
    ):
        plan.append(timed(lambda: strategy(group)))
        names.append(timed(lambda: names_to_names(strategy, topic_index, problem.members)))
        if calls is None or (kafka and min(kafka) > 1000 * arguments.once):
            continue
        took = assignors.timed(calls.plan)
        by_names = took if calls.names is None or took is None else assignors.timed(calls.names)
        if took is not None and by_names is not None:
            kafka.append(took)
            kafka_names.append(by_names)
            continue
        calls, kafka_text = None, f"> {arguments.limit * 1000:.0f}"
        if not kafka:
            given_up[kind] = min(given_up.get(kind, sys.maxsize), size(problem.cell))
    line = f"{name:19}{problem}{min(plan):10.2f}{min(names):10.2f}"
    if not kafka:
        print(f"{line}{kafka_text:>12}", flush=True)
        return ""
    faster = min(kafka) / min(plan), min(kafka_names) / min(names)
    mark = ("P" if faster[0] < 1 else "") + ("N" if faster[1] < 1 else "")
    kafka_text = f"{min(kafka):12.2f}{min(kafka_names):10.2f}"
    print(f"{line}{kafka_text}{faster[0]:9.2f}{faster[1]:9.2f} {mark}", flush=True)
    return mark


def size(cell: str) -> int:
    """Members x topics x partitions of a topic."""
    members, topics, partitions = map(int, cell.split("x"))
    return members * topics * partitions


def names_to_names(
    strategy: Strategy, topic_index: TopicIndex, members: list[Member]
) -> dict[str, dict[str, list[int]]]:
    group = Group.build(topic_index, members)
    return strategy(group).to_names(group)


def timed(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return (perf_counter() - begun) * 1000


if __name__ == "__main__":
    main()
