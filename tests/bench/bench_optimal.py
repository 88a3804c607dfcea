"""`optimal` beside `lag`, `range`, `sticky` and `uniform`: time from names to names, memory, and what each plan is worth.

    python tests/bench/bench_optimal.py [--sizes 10000x100,100000x1000,1000000x10000] [--repeat 3] [--case fresh,left]

Case `fresh`: nobody owns anything. Case `left`: one member of a fleet that `optimal` planned has left. Case `drifted`: as
planned, and every lag has changed by up to a fifth. `peak` is the process's memory, which only grows.
"""

import argparse
import random
import resource
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from time import perf_counter

from assignors.assignment import Assignment
from assignors.group import Group, Member, Topic
from assignors.optimal import optimal_plan
from assignors.score import score
from assignors.strategies import STRATEGIES, Strategy

RACKS = ["a", "b", "c"]
BASELINES = ["lag", "range", "sticky", "uniform"]
Names = Mapping[str, Mapping[str, list[int]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000x100,100000x1000,1000000x10000")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", default="fresh,left,drifted")
    parser.add_argument("--strategies", default=",".join(["optimal", *BASELINES]))
    parser.add_argument("--lags", choices=["uniform", "pareto"], default="pareto")
    arguments = parser.parse_args()
    print(
        f"{'case':9}{'partitions':>11}{'members':>9}  {'strategy':10}{'names ms':>10}{'plan ms':>9}"
        f"{'spread':>8}{'max/mean':>10}{'cross':>8}{'moved':>9}{'peak MiB':>10}"
    )
    for size in arguments.sizes.split(","):
        partitions, members = map(int, size.split("x"))
        topics, people = fleet(partitions, members, arguments.lags)
        for case in arguments.case.split(","):
            put = CASES[case](topics, people)
            for name in arguments.strategies.split(","):
                row(case, name, *put, arguments.repeat)
            group = Group.build(*put)
            print("    " + "; ".join(optimal_plan(group, time_budget=60).certificate.lines()), flush=True)


def row(case: str, name: str, topics: dict[str, Topic], members: list[Member], repeat: int) -> None:
    plan: list[float] = []
    whole: list[float] = []
    strategy: Strategy = STRATEGIES[name]
    for _ in range(repeat):
        begun = perf_counter()
        group = Group.build(topics, members)
        built = perf_counter()
        assignment = strategy(group)
        planned = perf_counter()
        assignment.to_names(group)
        whole.append((perf_counter() - begun) * 1000)
        plan.append((planned - built) * 1000)
    figures = score(group, assignment)
    cross = "-" if figures.cross_rack is None else f"{figures.cross_rack:.4f}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{case:9}{group.partition_count:>11,}{len(members):>9,}  {name:10}{median(whole):>10.0f}{median(plan):>9.0f}"
        f"{figures.spread:>8}{figures.lag_max_over_mean or 0:>10.4f}{cross:>8}{figures.moved:>9,}{peak:>10.0f}",
        flush=True,
    )


def fleet(partitions: int, members: int, lags: str) -> tuple[dict[str, Topic], list[Member]]:
    draw = random.Random(1)
    count = max(partitions // 1000, 10)
    each = partitions // count
    # Shared lists: a million of them are the input's cost, not ours.
    shelf = [draw.sample(RACKS, 2) for _ in range(997)]
    lag: Callable[[], int] = {
        "uniform": lambda: draw.randrange(100_000),
        "pareto": lambda: int(draw.paretovariate(2) * 1000),
    }[lags]
    topics = {
        f"topic-{number:04}": Topic(
            partitions=each,
            replica_racks=[draw.choice(shelf) for _ in range(each)],
            lags=[lag() for _ in range(each)],
        )
        for number in range(count)
    }
    names = list(topics)
    return topics, [Member(id=f"member-{n:05}", topics=names, rack=RACKS[n % 3]) for n in range(members)]


def fresh(topics: dict[str, Topic], members: list[Member]) -> tuple[dict[str, Topic], list[Member]]:
    return topics, members


def left(topics: dict[str, Topic], members: list[Member]) -> tuple[dict[str, Topic], list[Member]]:
    return topics, owning(topics, members)[1:]


def drifted(topics: dict[str, Topic], members: list[Member]) -> tuple[dict[str, Topic], list[Member]]:
    draw = random.Random(2)
    later = {
        name: replace(topic, lags=[int(lag * draw.uniform(0.8, 1.2)) for lag in topic.lags or ()])
        for name, topic in topics.items()
    }
    return later, owning(topics, members)


def owning(topics: dict[str, Topic], members: list[Member]) -> list[Member]:
    group = Group.build(topics, members)
    names: Names = Assignment(optimal_plan(group, time_budget=60).assignment.owner).to_names(group)
    return [replace(member, owned=names[member.id], generation=1) for member in members]


CASES = {"fresh": fresh, "left": left, "drifted": drifted}


if __name__ == "__main__":
    main()
