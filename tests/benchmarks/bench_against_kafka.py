"""Strategies beside Kafka's classes of the same name, interleaved in one run: milliseconds, the least of the repeats.

    python tests/benchmarks/bench_against_kafka.py                      # the smaller cells: some seven minutes
    python tests/benchmarks/bench_against_kafka.py --whole              # the whole grid: about an hour
    python tests/benchmarks/bench_against_kafka.py --cells 100x100x10,1000x100x100 --strategies range,sticky --topics all --racks 3

A cell is members x topics x partitions of a topic. Each is run with equal subscriptions and with one fifth of the topics for
each member, with 2 and 3 racks of replicas of 3, from scratch and after one member left. Kafka is warmed up.

What is measured. *Plan* is a strategy alone: ours from columns to a column, Kafka's assign(). *Names* is from what stands
ready before a plan is wanted to who gets which numbers of which topics, all written out. What stands ready is the topics,
indexed (our `Catalogue`, Kafka's Cluster and metadata image), and a value for each member with the names of what it reads
and owns. Ours goes through `Group.build`, which checks and sorts all members anew, to dictionaries. The consumer's classes do
just that in assign(), from Subscriptions to lists of TopicPartition, so their two times are one. The server's classes do less:
they start from topic ids and an index of who owns what, both of which the broker keeps up to date, and may answer by ranges
that nobody has written out. Their time by names is that of the broker's TargetAssignmentBuilder, from members with names of
topics to a record of partitions for each member whose assignment changed; nothing is written for the others. They look at
neither racks nor generations; ours do.

`> 60000`: Kafka's call was given up after so long. `unrun`: a cell that is no larger, of the same strategy, subscriptions and
state, was given up before. The last column marks what is slower than Kafka: P the plan alone, N names to names.
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

from assignors.problem.group import Group
from assignors.problem.inputs import (
    Member,
    Topic,
)
from assignors.problem.topic_index import TopicIndex
from assignors.registry import (
    STRATEGIES,
    Strategy,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.kafka.kafka_oracle import (
    CLIENT_SIDE,
    Kafka,
)
from levelwind_testing.processes.coordinator_cases import (
    CoordinatorCases,
    Stated,
)

CELLS = "100x100x10,1000x100x100,1000x1000x10"
GRID = f"{CELLS},10000x100x100,1000x1000x100"
COMPARED = "range,roundrobin,sticky,cooperative-sticky,uniform,server-range"
RACKS = ["a", "b", "c"]
WARM_UP = 30
ENOUGH = 0.5
"""Seconds that a cell is repeated for, beyond the least number of repeats; noise has a harder time with short ones."""
MOST_REPEATS = 40
HEAD = (
    f"{'strategy':19}{'cell':>14} {'topics':>6} {'racks':>5} {'state':>9}{'plan':>10}{'names':>10}"
    f"{'Kafka plan':>12}{'names':>10}{'x plan':>9}{'x names':>9}"
)


class Case(NamedTuple):
    cell: str
    wishes: str
    racks: int
    state: str
    topics: dict[str, Topic]
    members: list[Member]

    def __str__(self) -> str:
        return f"{self.cell:>14} {self.wishes:>6} {self.racks:>5} {self.state:>9}"


class Calls(NamedTuple):
    """Kafka's side of a case, which stands in the Java process already."""

    plan: Callable[[], Any]
    names: Callable[[], Any] | None  # None: the plan goes by names already


class Java:
    """Kafka's assignors in a process of their own, which a call that takes too long costs its life."""

    def __init__(self, strategies: list[str], limit: float) -> None:
        self._strategies = strategies
        self._limit = limit
        self._start()

    def _start(self) -> None:
        self._kafka = Kafka("-Xmx6g")
        self._coordinator = CoordinatorCases(self._kafka)
        self._stated: tuple[Case, Stated] | None = None
        for case in cases(["30x30x10"], ["all", "1/5"], [2, 3], ["scratch", "one left"]):
            for name in self._strategies:
                for call in filter(None, self.calls(name, case)):
                    for _ in range(WARM_UP):
                        call()

    def calls(self, name: str, case: Case) -> Calls:
        """The calls of the problem's assignor."""
        if name in CLIENT_SIDE:
            problem = self._kafka.prepared(name, case.topics, case.members)
            return Calls(lambda: self._kafka.call(name, *problem), None)
        if self._stated is None or self._stated[0] is not case:
            self._stated = case, self._coordinator.stated(case.topics, case.members)
        stated = self._stated[1]
        return Calls(
            lambda: self._coordinator.call(name, stated),
            lambda: self._coordinator.call_by_names(name, stated),
        )

    def timed(self, call: Callable[[], Any]) -> float | None:
        """Milliseconds, or None: it was given up."""
        took: list[float] = []
        wrong: list[Exception] = []

        def work() -> None:
            try:
                took.append(timed(call))
            except Exception as error:  # noqa: BLE001 - it is raised again, by the thread that waits
                wrong.append(error)

        thread = Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._limit)
        if thread.is_alive():
            self._kafka.process.kill()
            self._kafka.process.wait()
            self._start()
            return None
        if wrong:
            raise wrong[0]
        return took[0]

    def close(self) -> None:
        self._kafka.close()


def main() -> None:
    arguments = parsed()
    logging.disable()  # a process that was given up is missed by its connections
    java = Java(arguments.strategies, arguments.limit)
    print(HEAD, flush=True)
    slow: dict[tuple[str, str, str], int] = {}
    marked, measured = [], 0
    for case in cases(arguments.cells, arguments.topics, arguments.racks, arguments.states):
        for name in arguments.strategies:
            mark = report(java, case, name, arguments, slow)
            measured += 1
            if mark:
                marked.append(f"{name:19}{case} {mark}")
    java.close()
    print(f"\nslower than Kafka in {len(marked)} of {measured} cells", *marked, sep="\n")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=listed, default=listed(CELLS), help=f"of {GRID}, or any")
    parser.add_argument(
        "--whole", action="store_true", help="the whole grid, and patience with Kafka"
    )
    parser.add_argument("--strategies", type=listed, default=listed(COMPARED))
    parser.add_argument("--topics", type=listed, default=listed("all,1/5"), help="of each member")
    parser.add_argument(
        "--racks", type=lambda text: [int(one) for one in listed(text)], default=[2, 3]
    )
    parser.add_argument("--states", type=listed, default=listed("scratch,one left"))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--once", type=float, default=5.0, help="seconds of a call of Kafka's that is not repeated"
    )
    parser.add_argument(
        "--limit", type=float, default=10.0, help="seconds after which one is given up"
    )
    arguments = parser.parse_args()
    if arguments.whole:
        arguments.cells, arguments.limit = listed(GRID), max(arguments.limit, 60.0)
    return arguments


def listed(text: str) -> list[str]:
    return text.split(",")


def cases(
    cells: list[str], wishes: list[str], racks: list[int], states: list[str]
) -> Iterator[Case]:
    for cell in cells:
        for wish in wishes:
            for count in racks:
                topics, people = problem(cell, wish, count)
                if "scratch" in states:
                    yield Case(cell, wish, count, "scratch", topics, people)
                if "one left" in states:
                    group = Group.build(topics, people)
                    owned = STRATEGIES["sticky"](group).to_names(group)
                    stayed = [
                        replace(member, owned=owned[member.id], generation=1)
                        for member in people[1:]
                    ]
                    yield Case(cell, wish, count, "one left", topics, stayed)


def problem(cell: str, wish: str, racks: int) -> tuple[dict[str, Topic], list[Member]]:
    members, topics, partitions = map(int, cell.split("x"))
    draw = random.Random(4)
    names = [f"topic-{number:04}" for number in range(topics)]
    described = {
        name: Topic(
            partitions=partitions,
            replica_racks=[draw.sample(RACKS, racks) for _ in range(partitions)],
        )
        for name in names
    }
    people = [
        Member(
            id=f"member-{number:05}",
            topics=names if wish == "all" else draw.sample(names, topics // 5),
            rack=RACKS[number % 3],
        )
        for number in range(members)
    ]
    return described, people


def report(
    java: Java,
    case: Case,
    name: str,
    arguments: argparse.Namespace,
    slow: dict[tuple[str, str, str], int],
) -> str:
    """Measure and print one line; the answer is its mark."""
    strategy, topic_index = STRATEGIES[name], TopicIndex.of(case.topics)
    group = Group.build(topic_index, case.members)
    kind = name, case.wishes, case.state
    given_up_at = slow.get(kind)
    calls = (
        None
        if given_up_at is not None and given_up_at <= size(case.cell)
        else java.calls(name, case)
    )
    theirs = "unrun" if calls is None else ""
    plan, names, kafka, kafka_names = [], [], [], []
    begun = perf_counter()
    while len(plan) < arguments.repeat or (
        len(plan) < MOST_REPEATS and perf_counter() - begun < ENOUGH
    ):
        plan.append(timed(lambda: strategy(group)))
        names.append(timed(lambda: names_to_names(strategy, topic_index, case.members)))
        if calls is None or (kafka and min(kafka) > 1000 * arguments.once):
            continue
        took = java.timed(calls.plan)
        by_names = took if calls.names is None or took is None else java.timed(calls.names)
        if took is not None and by_names is not None:
            kafka.append(took)
            kafka_names.append(by_names)
            continue
        calls, theirs = None, f"> {arguments.limit * 1000:.0f}"
        if not kafka:
            slow[kind] = min(slow.get(kind, sys.maxsize), size(case.cell))
    line = f"{name:19}{case}{min(plan):10.2f}{min(names):10.2f}"
    if not kafka:
        print(f"{line}{theirs:>12}", flush=True)
        return ""
    faster = min(kafka) / min(plan), min(kafka_names) / min(names)
    mark = ("P" if faster[0] < 1 else "") + ("N" if faster[1] < 1 else "")
    theirs = f"{min(kafka):12.2f}{min(kafka_names):10.2f}"
    print(f"{line}{theirs}{faster[0]:9.2f}{faster[1]:9.2f} {mark}", flush=True)
    return mark


def size(cell: str) -> int:
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
