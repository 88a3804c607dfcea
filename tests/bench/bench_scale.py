"""Every strategy on 1,000,000 partitions and 10,000 members: time of the plan, and the process's peak memory.

    python tests/bench/bench_scale.py [--partitions 1000000] [--members 10000] [--topics 1000] [--strategies lag,range]

Each strategy runs on half and on all of the partitions, so that growth shows.
"""

import argparse
import random
import resource
from time import perf_counter

from assignors.group import Group, Member, Topic
from assignors.strategies import STRATEGIES

RACKS = ["a", "b", "c"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(STRATEGIES))
    arguments = parser.parse_args()
    print(f"{'strategy':20}{'partitions':>12}{'build ms':>10}{'plan ms':>10}{'names ms':>10}{'peak MiB':>10}")
    for size in (arguments.partitions // 2, arguments.partitions):
        begun = perf_counter()
        group = built(size // arguments.topics, arguments.topics, arguments.members)
        build = (perf_counter() - begun) * 1000
        for name in arguments.strategies:
            begun = perf_counter()
            assignment = STRATEGIES[name](group)
            planned = perf_counter()
            assignment.to_names(group)
            named = perf_counter()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            times = f"{(planned - begun) * 1000:10.0f}{(named - planned) * 1000:10.0f}"
            print(f"{name:20}{group.partition_count:>12,}{build:10.0f}{times}{peak:10.0f}", flush=True)


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
