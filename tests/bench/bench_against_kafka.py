"""Strategies beside Kafka's classes of the same name, interleaved in one run: milliseconds, the least of the repeats.

    python tests/bench/bench_against_kafka.py [--cells 100x100x10,1000x100x100] [--strategies range,sticky] [--repeat 5]

A cell is members x topics x partitions of a topic. Each is run with equal subscriptions and with one fifth of the topics for
each member, with 2 and 3 racks of replicas of 3, from scratch and after one member left. Kafka's time is its assign() alone,
warmed up; ours is the plan alone, and names to names. A Kafka call beyond the budget is not repeated, nor are larger ones.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "assignors"))

from kafka_oracle import Kafka

from assignors.group import Group, Member, Topic
from assignors.strategies import STRATEGIES, Strategy

RACKS = ["a", "b", "c"]
WARM_UP = 30


class Case(NamedTuple):
    cell: str
    wishes: str
    racks: int
    state: str
    topics: dict[str, Topic]
    members: list[Member]


def main() -> None:
    arguments = parsed()
    kafka = Kafka("-Xmx8g")
    warm_up(kafka, arguments.strategies)
    print(
        f"{'strategy':20}{'cell':>15} {'topics':>6} {'racks':>5} {'state':>9}{'plan':>10}{'names':>10}{'kafka':>12}{'ratio':>8}"
    )
    slow: set[str] = set()
    for case in cases(arguments.cells):
        for name in arguments.strategies:
            report(kafka, case, name, arguments, slow)
    kafka.close()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=listed, default=listed("100x100x10,1000x100x100,1000x1000x10"))
    parser.add_argument(
        "--strategies", type=listed, default=listed("range,roundrobin,sticky,cooperative-sticky")
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of one call of Kafka's")
    return parser.parse_args()


def listed(text: str) -> list[str]:
    return text.split(",")


def cases(cells: list[str]) -> Iterator[Case]:
    for cell in cells:
        members, topics, partitions = map(int, cell.split("x"))
        for fifth in (False, True):
            for racks in (2, 3):
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
                        topics=draw.sample(names, topics // 5) if fifth else names,
                        rack=RACKS[number % 3],
                    )
                    for number in range(members)
                ]
                wishes = "1/5" if fifth else "all"
                yield Case(cell, wishes, racks, "scratch", described, people)
                group = Group.build(described, people)
                owned = STRATEGIES["sticky"](group).to_names(group)
                stayed = [replace(member, owned=owned[member.id], generation=1) for member in people[1:]]
                yield Case(cell, wishes, racks, "one left", described, stayed)


def report(kafka: Kafka, case: Case, name: str, arguments: argparse.Namespace, slow: set[str]) -> None:
    strategy = STRATEGIES[name]
    group = Group.build(case.topics, case.members)
    theirs = None if f"{name} {case.wishes}" in slow else kafka.prepared(name, case.topics, case.members)
    plan, names, java = [], [], []
    for _ in range(arguments.repeat):
        plan.append(timed(lambda: strategy(group)))
        names.append(timed(lambda: names_to_names(strategy, case)))
        if theirs is not None:
            java.append(timed(lambda theirs=theirs: kafka.call(name, *theirs)))
            if java[-1] > 1000 * arguments.budget:
                slow.add(f"{name} {case.wishes}")
                theirs = None
    measured = f"{min(java):12.1f}{min(java) / min(plan):8.1f}" if java else f"{'beyond':>12}{'':8}"
    print(
        f"{name:20}{case.cell:>15} {case.wishes:>6} {case.racks:>5} {case.state:>9}"
        f"{min(plan):10.1f}{min(names):10.1f}{measured}",
        flush=True,
    )


def names_to_names(strategy: Strategy, case: Case) -> dict[str, dict[str, list[int]]]:
    group = Group.build(case.topics, case.members)
    return strategy(group).to_names(group)


def warm_up(kafka: Kafka, strategies: list[str]) -> None:
    for case in cases(["30x30x10"]):
        for name in strategies:
            theirs = kafka.prepared(name, case.topics, case.members)
            for _ in range(WARM_UP):
                kafka.call(name, *theirs)


def timed(work: Callable[[], object]) -> float:
    begun = perf_counter()
    work()
    return (perf_counter() - begun) * 1000


if __name__ == "__main__":
    main()
