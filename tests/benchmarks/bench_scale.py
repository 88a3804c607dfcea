"""Time, growth and memory of every strategy, up to 1,000,000 partitions and 10,000 members.

    python tests/benchmarks/bench_scale.py [--partitions 1000000] [--members 10000]
                                           [--topics 1000] [--strategies lag,range]

Partitions and members double together, from an eighth of them on. `growth` is the plan's time over
that of half the size, and `P log P` the growth of that function; `!` marks faster growth. `plan
MiB` is the most memory that numpy and Python take for a plan, measured in a run of its own, which
tracing slows down; `peak MiB` is that of the process, problem included. Times are CPU times, the
least of the repeats: at least three, and as many as fit in a second.
"""

import argparse
import math
import random
import resource
import tracemalloc
from time import process_time

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.registry import STRATEGIES, Strategy

RACKS = ["a", "b", "c"]
HALVINGS, REPEAT, MIB = 3, 3, 2**20
REPEAT_SECONDS = 1.0
"""CPU time for which a plan is repeated, at least."""


def main() -> None:
    arguments = parse_arguments()
    print(
        f"{'strategy':20}{'partitions':>12}{'members':>9}{'plan ms':>10}{'growth':>8}{'P log P':>9}"
        f"{'names ms':>10}{'plan MiB':>10}{'peak MiB':>10}"
    )
    before: dict[str, float] = {}
    for halvings in reversed(range(HALVINGS + 1)):
        size, members = arguments.partitions >> halvings, arguments.members >> halvings
        begun = process_time()
        group = build_group(size // arguments.topics, arguments.topics, members)
        print(
            f"{'(the problem)':20}{size:>12,}{members:>9,}{(process_time() - begun) * 1000:>10.0f}",
            flush=True,
        )
        for name in arguments.strategies:
            report(group, name, before)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(STRATEGIES))
    return parser.parse_args()


def report(group: Group, name: str, before: dict[str, float]) -> None:
    strategy = STRATEGIES[name]
    plan, names = [], []
    while len(plan) < REPEAT or sum(plan) + sum(names) < REPEAT_SECONDS * 1000:
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
    plan_mib = peak_memory(strategy, group) / MIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:20}{group.partition_count:>12,}{len(group.members):>9,}{min(plan):10.1f}{growth}"
        f"{min(names):10.0f}{plan_mib:10.0f}{peak:10.0f}",
        flush=True,
    )


def peak_memory(strategy: Strategy, group: Group) -> int:
    """The most bytes that a plan takes while it is computed."""
    tracemalloc.start()
    strategy(group)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def build_group(partitions: int, topics: int, members: int) -> Group:
    draw = random.Random(1)
    # Shared lists: a million separate ones would be a cost of the input, not of the strategies.
    rack_lists = [draw.sample(RACKS, 2) for _ in range(997)]
    names = [f"topic-{number:04}" for number in range(topics)]
    topics_by_name = {
        name: Topic(
            partitions=partitions,
            replica_racks=[draw.choice(rack_lists) for _ in range(partitions)],
            lags=[draw.randrange(100_000) for _ in range(partitions)],
        )
        for name in names
    }
    group_members = [
        Member(id=f"member-{n:05}", topics=names, rack=RACKS[n % 3]) for n in range(members)
    ]
    return Group.build(topics_by_name, group_members)


if __name__ == "__main__":
    main()
