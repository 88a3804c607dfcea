"""Every strategy up to 1,000,000 partitions and 10,000 members: time of the plan, growth for each doubling, and memory.

    python tests/benchmarks/bench_scale.py [--partitions 1000000] [--members 10000] [--topics 1000] [--strategies lag,range]

Partitions and members double together, from an eighth of them on. `growth` is the plan's time over that of half the size, and
`P log P` what that would be by that law; `!` marks what grew faster. `plan MiB` is what numpy and Python take at most while the plan is made, measured in a run of its own, which
tracing slows down; `peak MiB` is the process's, problem included. Times are of the processor, the least of the repeats: three
at least, and as many as a second holds.
"""

import argparse
import math
import random
import resource
import tracemalloc
from time import process_time

from assignors.problem.group import Group
from assignors.problem.inputs import (
    Member,
    Topic,
)
from assignors.registry import (
    STRATEGIES,
    Strategy,
)

RACKS = ["a", "b", "c"]
HALVINGS, REPEAT, MIB = 3, 3, 2**20
ENOUGH = 1.0  # seconds that a plan is repeated for


def main() -> None:
    arguments = parsed()
    print(
        f"{'strategy':20}{'partitions':>12}{'members':>9}{'plan ms':>10}{'growth':>8}{'P log P':>9}{'names ms':>10}"
        f"{'plan MiB':>10}{'peak MiB':>10}"
    )
    before: dict[str, float] = {}
    for halvings in reversed(range(HALVINGS + 1)):
        size, members = arguments.partitions >> halvings, arguments.members >> halvings
        begun = process_time()
        group = built(size // arguments.topics, arguments.topics, members)
        print(
            f"{'(the problem)':20}{size:>12,}{members:>9,}{(process_time() - begun) * 1000:>10.0f}",
            flush=True,
        )
        for name in arguments.strategies:
            report(group, name, before)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(STRATEGIES))
    return parser.parse_args()


def report(group: Group, name: str, before: dict[str, float]) -> None:
    strategy = STRATEGIES[name]
    plan, names = [], []
    while len(plan) < REPEAT or sum(plan) + sum(names) < ENOUGH * 1000:
        begun = process_time()
        assignment = strategy(group)
        planned = process_time()
        assignment.to_names(group)
        plan.append((planned - begun) * 1000)
        names.append((process_time() - planned) * 1000)
    growth = f"{'':17}"
    if name in before:
        bound = 2 * math.log(group.partition_count) / math.log(group.partition_count / 2)
        grew = min(plan) / before[name]
        growth = f"{grew:8.2f}{bound:7.2f} {'!' if grew > bound else ' '}"
    before[name] = min(plan)
    taken = memory(strategy, group) / MIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:20}{group.partition_count:>12,}{len(group.members):>9,}{min(plan):10.1f}{growth}{min(names):10.0f}"
        f"{taken:10.0f}{peak:10.0f}",
        flush=True,
    )


def memory(strategy: Strategy, group: Group) -> int:
    tracemalloc.start()
    strategy(group)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def built(partitions: int, topics: int, members: int) -> Group:
    draw = random.Random(1)
    shelf = [
        draw.sample(RACKS, 2) for _ in range(997)
    ]  # shared lists: a million of them are the input's cost, not ours
    names = [f"topic-{number:04}" for number in range(topics)]
    described = {
        name: Topic(
            partitions=partitions,
            replica_racks=[draw.choice(shelf) for _ in range(partitions)],
            lags=[draw.randrange(100_000) for _ in range(partitions)],
        )
        for name in names
    }
    people = [Member(id=f"member-{n:05}", topics=names, rack=RACKS[n % 3]) for n in range(members)]
    return Group.build(described, people)


if __name__ == "__main__":
    main()
