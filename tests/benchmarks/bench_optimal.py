"""`optimal` beside `lag`, `range`, `sticky` and `uniform`: time from names to names, memory, growth, and what each plan is worth.

    python tests/benchmarks/bench_optimal.py                       # all three tables: about five minutes
    python tests/benchmarks/bench_optimal.py --only speed [--sizes 10000x100,100000x1000] [--repeat 3] [--case fresh,left]
    python tests/benchmarks/bench_optimal.py --only growth [--growth 31250,1000000]
    python tests/benchmarks/bench_optimal.py --only grid [--cells 100x100x10,1000x1000x10] [--lags pareto,uniform]

Case `fresh`: nobody owns anything. Case `left`: one member of a fleet that `optimal` planned has left. Case `drifted`: as
planned, and every lag has changed by up to a fifth. Each row is a process of its own; `peak` is what it needed at most, its
input included, `more` what it needed beyond that. Times are the least of the repeats. Growth is the processor's time for twice
as many partitions and members over the time before, beside what P log P grows by. The grid says who is at least as good as `optimal` in all respects and better in one.
"""

import argparse
import os
import pickle
import random
import resource
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import log
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from assignors.optimal import optimal_plan
from assignors.problem.group import Group
from assignors.problem.inputs import (
    Member,
    Topic,
)
from assignors.problem.score import (
    Score,
    score,
)
from assignors.registry import STRATEGIES

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.groups.dominance import (
    answers,
    cases,
    plan_figures,
)

RACKS = ["a", "b", "c"]
BASELINES = ["lag", "range", "sticky", "uniform"]
CELLS = "100x100x10,1000x100x100,1000x1000x10,100x1x10000,10000x100x100"
Names = Mapping[str, Mapping[str, list[int]]]
Problem = tuple[dict[str, Topic], list[Member]]


class Row(NamedTuple):
    """What a strategy needed for a problem, the least of the repeats, and what its plan is worth."""

    names: float  # ms
    processor: float  # ms, of the same
    plan: float  # ms
    worth: Score
    peak: float  # MiB
    more: float  # MiB
    summary: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["speed", "growth", "grid"])
    parser.add_argument("--sizes", default="10000x100,100000x1000,1000000x10000")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", default="fresh,left,drifted")
    parser.add_argument("--strategies", default=",".join(["optimal", *BASELINES]))
    parser.add_argument(
        "--growth", default="31250,1000000", help="from and to so many partitions, doubling"
    )
    parser.add_argument("--cells", default=CELLS, help="members x topics x partitions of a topic")
    parser.add_argument("--lags", default="pareto", help="pareto, uniform; of the grid also few")
    arguments = parser.parse_args()
    if arguments.only in {None, "speed"}:
        speed(arguments)
    if arguments.only in {None, "growth"}:
        growth(arguments)
    if arguments.only in {None, "grid"}:
        grid(arguments.cells.split(","), arguments.lags.split(","))


def speed(arguments: argparse.Namespace) -> None:
    print(
        f"{'case':9}{'partitions':>11}{'members':>9}  {'strategy':10}{'names ms':>10}{'cpu ms':>8}{'plan ms':>9}"
        f"{'spread':>8}{'max/mean':>10}{'cross':>8}{'moved':>9}{'peak MiB':>10}{'more MiB':>10}"
    )
    for size in arguments.sizes.split(","):
        partitions, members = map(int, size.split("x"))
        whole = fleet(partitions, members, arguments.lags.split(",")[0])
        for case in arguments.case.split(","):
            put = CASES[case](*whole)
            for name in arguments.strategies.split(","):
                row = measured(name, put, arguments.repeat)
                worth = row.worth
                cross = "-" if worth.cross_rack is None else f"{worth.cross_rack:.4f}"
                print(
                    f"{case:9}{partitions:>11,}{len(put[1]):>9,}  {name:10}{row.names:>10.0f}{row.processor:>8.0f}{row.plan:>9.0f}"
                    f"{worth.spread:>8}{worth.lag_max_over_mean or 0:>10.4f}{cross:>8}{worth.moved:>9,}"
                    f"{row.peak:>10.0f}{row.more:>10.0f}",
                    flush=True,
                )
                if row.summary:
                    print("    " + "; ".join(row.summary))


def growth(arguments: argparse.Namespace) -> None:
    first, last = map(int, arguments.growth.split(","))
    sizes = [first << doubling for doubling in range((last // first).bit_length())]
    print(
        f"{'case':9}{'partitions':>11}{'members':>9}{'names ms':>10}{'cpu ms':>8}{'growth':>8}{'P log P':>9}{'more MiB':>10}"
    )
    took: dict[str, list[float]] = {}
    for partitions in sizes:
        whole = fleet(partitions, partitions // 100, arguments.lags.split(",")[0])
        for case in arguments.case.split(","):
            row = measured("optimal", CASES[case](*whole), arguments.repeat)
            times = took.setdefault(case, [])
            times.append(row.processor)
            factors = f"{'':>17}"
            if len(times) > 1:
                factors = (
                    f"{times[-1] / times[-2]:>8.2f}{_grown(partitions // 2, partitions):>9.2f}"
                )
            print(
                f"{case:9}{partitions:>11,}{partitions // 100:>9,}{row.names:>10.0f}{row.processor:>8.0f}{factors}{row.more:>10.0f}",
                flush=True,
            )
    for case, times in took.items():
        whole_factor = times[-1] / times[0]
        print(
            f"    {case}: {whole_factor:.1f} times as long over the whole range, P log P {_grown(first, sizes[-1]):.1f}"
        )


def _grown(first: int, last: int) -> float:
    """What P log P grows by."""
    return last * log(last) / (first * log(first))


def grid(cells: list[str], lags: list[str]) -> None:
    print(f"{'cell':>14} subs  k  state {'lags':>8}{'ms':>7}  spread, max/mean, cross-rack, moved")
    for lag in lags:
        for case in cases(cells, racks=(2, 3), lags=lag):
            begun = perf_counter()
            plan = STRATEGIES["optimal"](case.group)
            took = (perf_counter() - begun) * 1000
            ours = plan_figures(case.group, plan)
            theirs = answers(case.group)
            better = [name for name, worth in theirs.items() if worth.beats(ours)]
            rest = "; ".join(f"{name} {_figures_text(worth)}" for name, worth in theirs.items())
            verdict = f"DOMINATED by {', '.join(better)}" if better else "undominated"
            print(
                f"{case} {lag:>8}{took:>7.0f}  optimal {_figures_text(ours)}; {rest}: {verdict}",
                flush=True,
            )


def _figures_text(worth: tuple[int, float, float, int]) -> str:
    spread, load, cross, moved = worth
    return f"{spread}, {load:.3f}, {cross:.3f}, {moved}"


def measured(name: str, put: Problem, repeat: int) -> Row:
    """Measure in a child: nothing that came before counts in its memory but the input."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            pickle.dump(_measured(name, put, repeat), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as read:
        sent = read.read()
    os.waitpid(child, 0)
    row: Row = pickle.loads(sent)  # noqa: S301 - our own child's
    return row


def _measured(name: str, put: Problem, repeat: int) -> Row:
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    plan: list[float] = []
    whole: list[float] = []
    processor: list[float] = []
    for _ in range(repeat):
        begun, spent = perf_counter(), process_time()
        group = Group.build(*put)
        built = perf_counter()
        assignment = STRATEGIES[name](group)
        planned = perf_counter()
        assignment.to_names(group)
        whole.append((perf_counter() - begun) * 1000)
        processor.append((process_time() - spent) * 1000)
        plan.append((planned - built) * 1000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = optimal_plan(group).certificate.lines() if name == "optimal" else ()
    return Row(
        min(whole), min(processor), min(plan), score(group, assignment), peak, peak - start, summary
    )


def fleet(partitions: int, members: int, lags: str) -> Problem:
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
    return topics, [
        Member(id=f"member-{n:05}", topics=names, rack=RACKS[n % 3]) for n in range(members)
    ]


def fresh(topics: dict[str, Topic], members: list[Member]) -> Problem:
    return topics, members


def left(topics: dict[str, Topic], members: list[Member]) -> Problem:
    return topics, owning(topics, members)[1:]


def drifted(topics: dict[str, Topic], members: list[Member]) -> Problem:
    draw = random.Random(2)
    later = {
        name: replace(topic, lags=[int(lag * draw.uniform(0.8, 1.2)) for lag in topic.lags or ()])
        for name, topic in topics.items()
    }
    return later, owning(topics, members)


def owning(topics: dict[str, Topic], members: list[Member]) -> list[Member]:
    group = Group.build(topics, members)
    names: Names = optimal_plan(group, time_budget=60).assignment.to_names(group)
    return [replace(member, owned=names[member.id], generation=1) for member in members]


CASES = {"fresh": fresh, "left": left, "drifted": drifted}


if __name__ == "__main__":
    main()
