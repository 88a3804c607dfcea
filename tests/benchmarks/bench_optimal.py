"""`optimal` beside `lag`, `range`, `sticky` and `uniform`: time, memory, growth, and plan quality.

    python tests/benchmarks/bench_optimal.py                # all three tables: about five minutes
    python tests/benchmarks/bench_optimal.py --only speed [--sizes 10000x100,100000x1000]
                                             [--repeat 3] [--case fresh,left]
    python tests/benchmarks/bench_optimal.py --only growth [--growth 31250,1000000]
    python tests/benchmarks/bench_optimal.py --only grid [--cells 100x100x10,1000x1000x10]
                                             [--lags pareto,uniform]

Case `fresh`: nobody owns anything. Case `left`: one member has left a fleet that `optimal` planned.
Case `drifted`: as planned, but every lag has changed by up to a fifth. Each row is measured in a
process of its own; `peak` is the most memory that the process took, its input included, `more` what
it took beyond its input. Times are from names to names, the least of the repeats. Growth is the CPU
time for twice as many partitions and members, over that for the size before, beside the growth of
P log P. The grid names the strategies that are at least as good as `optimal` in every respect and
better in one.
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

from levelwind.assignors.optimal import optimal_plan
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import Score, score
from levelwind.assignors.registry import STRATEGIES

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.groups.dominance import answers, cases, plan_figures

RACKS = ["a", "b", "c"]
BASELINES = ["lag", "range", "sticky", "uniform"]
CELLS = "100x100x10,1000x100x100,1000x1000x10,100x1x10000,10000x100x100"
Names = Mapping[str, Mapping[str, list[int]]]
Problem = tuple[dict[str, Topic], list[Member]]


class Measurement(NamedTuple):
    """Cost of a strategy for a problem, the least of the repeats, and the quality of its plan."""

    names_ms: float
    """From names to names."""
    cpu_ms: float
    """CPU time of the same."""
    plan_ms: float
    """The plan alone."""
    worth: Score
    peak_mib: float
    """The most memory of the process, its input included."""
    more_mib: float
    """The most memory beyond the input."""
    summary: tuple[str, ...]
    """Lines of the plan's certificate; none for a strategy other than `optimal`."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["speed", "growth", "grid"])
    parser.add_argument("--sizes", default="10000x100,100000x1000,1000000x10000")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", default="fresh,left,drifted")
    parser.add_argument("--strategies", default=",".join(["optimal", *BASELINES]))
    parser.add_argument(
        "--growth",
        default="31250,1000000",
        help="smallest and largest number of partitions, doubling",
    )
    parser.add_argument("--cells", default=CELLS, help="members x topics x partitions of a topic")
    parser.add_argument("--lags", default="pareto", help="pareto, uniform; for the grid also few")
    arguments = parser.parse_args()
    if arguments.only in {None, "speed"}:
        speed(arguments)
    if arguments.only in {None, "growth"}:
        growth(arguments)
    if arguments.only in {None, "grid"}:
        grid(arguments.cells.split(","), arguments.lags.split(","))


def speed(arguments: argparse.Namespace) -> None:
    print(
        f"{'case':9}{'partitions':>11}{'members':>9}  "
        f"{'strategy':10}{'names ms':>10}{'cpu ms':>8}{'plan ms':>9}"
        f"{'spread':>8}{'max/mean':>10}{'cross':>8}{'moved':>9}{'peak MiB':>10}{'more MiB':>10}"
    )
    for size in arguments.sizes.split(","):
        partitions, members = map(int, size.split("x"))
        inputs = fleet(partitions, members, arguments.lags.split(",")[0])
        for case in arguments.case.split(","):
            problem = CASES[case](*inputs)
            for name in arguments.strategies.split(","):
                row = measure(name, problem, arguments.repeat)
                worth = row.worth
                cross = "-" if worth.cross_rack is None else f"{worth.cross_rack:.4f}"
                print(
                    f"{case:9}{partitions:>11,}{len(problem[1]):>9,}  "
                    f"{name:10}{row.names_ms:>10.0f}{row.cpu_ms:>8.0f}{row.plan_ms:>9.0f}"
                    f"{worth.spread:>8}{worth.skew or 0:>10.4f}"
                    f"{cross:>8}{worth.moved:>9,}"
                    f"{row.peak_mib:>10.0f}{row.more_mib:>10.0f}",
                    flush=True,
                )
                if row.summary:
                    print("    " + "; ".join(row.summary))


def growth(arguments: argparse.Namespace) -> None:
    first, last = map(int, arguments.growth.split(","))
    sizes = [first << doubling for doubling in range((last // first).bit_length())]
    print(
        f"{'case':9}{'partitions':>11}{'members':>9}{'names ms':>10}{'cpu ms':>8}"
        f"{'growth':>8}{'P log P':>9}{'more MiB':>10}"
    )
    took: dict[str, list[float]] = {}
    for partitions in sizes:
        inputs = fleet(partitions, partitions // 100, arguments.lags.split(",")[0])
        for case in arguments.case.split(","):
            row = measure("optimal", CASES[case](*inputs), arguments.repeat)
            times = took.setdefault(case, [])
            times.append(row.cpu_ms)
            factors = f"{'':>17}"
            if len(times) > 1:
                bound = _p_log_p_growth(partitions // 2, partitions)
                factors = f"{times[-1] / times[-2]:>8.2f}{bound:>9.2f}"
            print(
                f"{case:9}{partitions:>11,}{partitions // 100:>9,}"
                f"{row.names_ms:>10.0f}{row.cpu_ms:>8.0f}{factors}{row.more_mib:>10.0f}",
                flush=True,
            )
    for case, times in took.items():
        whole_factor = times[-1] / times[0]
        print(
            f"    {case}: {whole_factor:.1f} times as long over the whole range, "
            f"P log P {_p_log_p_growth(first, sizes[-1]):.1f}"
        )


def _p_log_p_growth(first: int, last: int) -> float:
    """The growth of P log P between two sizes."""
    return last * log(last) / (first * log(first))


def grid(cells: list[str], lags: list[str]) -> None:
    print(f"{'cell':>14} subs  k  state {'lags':>8}{'ms':>7}  spread, max/mean, cross-rack, moved")
    for lag in lags:
        for case in cases(cells, racks=(2, 3), lags=lag):
            begun = perf_counter()
            plan = STRATEGIES["optimal"](case.group)
            took = (perf_counter() - begun) * 1000
            subject = plan_figures(case.group, plan)
            others = answers(case.group)
            better = [name for name, worth in others.items() if worth.beats(subject)]
            rest = "; ".join(f"{name} {_figures_text(worth)}" for name, worth in others.items())
            verdict = f"DOMINATED by {', '.join(better)}" if better else "undominated"
            print(
                f"{case} {lag:>8}{took:>7.0f}  optimal {_figures_text(subject)}; {rest}: {verdict}",
                flush=True,
            )


def _figures_text(worth: tuple[int, float, float, int]) -> str:
    spread, load, cross, moved = worth
    return f"{spread}, {load:.3f}, {cross:.3f}, {moved}"


def measure(name: str, problem: Problem, repeat: int) -> Measurement:
    """Measure in a child process, so that its memory holds nothing but the input at its start."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            pickle.dump(_measure_here(name, problem, repeat), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as read:
        sent = read.read()
    os.waitpid(child, 0)
    row: Measurement = pickle.loads(sent)  # noqa: S301 - this script's own child wrote it
    return row


def _measure_here(name: str, problem: Problem, repeat: int) -> Measurement:
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    plan: list[float] = []
    names: list[float] = []
    cpu: list[float] = []
    for _ in range(repeat):
        begun, spent = perf_counter(), process_time()
        group = Group.build(*problem)
        built = perf_counter()
        assignment = STRATEGIES[name](group)
        planned = perf_counter()
        assignment.to_names(group)
        names.append((perf_counter() - begun) * 1000)
        cpu.append((process_time() - spent) * 1000)
        plan.append((planned - built) * 1000)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = optimal_plan(group).certificate.lines() if name == "optimal" else ()
    return Measurement(
        min(names), min(cpu), min(plan), score(group, assignment), peak, peak - start, summary
    )


def fleet(partitions: int, members: int, lags: str) -> Problem:
    draw = random.Random(1)
    count = max(partitions // 1000, 10)
    each = partitions // count
    # Shared lists: a million separate ones would be a cost of the input, not of the strategies.
    rack_lists = [draw.sample(RACKS, 2) for _ in range(997)]
    lag: Callable[[], int] = {
        "uniform": lambda: draw.randrange(100_000),
        "pareto": lambda: int(draw.paretovariate(2) * 1000),
    }[lags]
    topics = {
        f"topic-{number:04}": Topic(
            partitions=each,
            replica_racks=[draw.choice(rack_lists) for _ in range(each)],
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
