"""`lag` on 100,000 partitions and 1,000 members, beside a version without arrays, in one run.

python tests/benchmarks/bench_assignors.py
"""

import heapq
import random
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TypeVar

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.strategies.lag import lag_strategy

T = TypeVar("T")
TOPICS, PARTITIONS, MEMBERS, REPEAT = 10, 10_000, 1_000, 7


def main() -> None:
    draw = random.Random(5337)
    topics = {
        f"topic-{t:03}": Topic(
            partitions=PARTITIONS,
            lags=[int(draw.paretovariate(2) * 100) for _ in range(PARTITIONS)],
        )
        for t in range(TOPICS)
    }
    members = [Member(id=f"member-{m:05}", topics=list(topics)) for m in range(MEMBERS)]
    group = Group.build(topics, members)

    print(
        f"lag: {TOPICS * PARTITIONS:,} partitions of {TOPICS} topics, {MEMBERS:,} members; "
        f"{REPEAT} repeats"
    )
    planned = timed("names to names", lambda: names_to_names(topics, members))
    timed("the plan alone", lambda: lag_strategy(group))
    naive = timed(
        "a heap in plain Python, names to names", lambda: plan_with_heaps(topics, members)
    )
    assert planned == naive, "both must give the same assignment"
    figures = score(group, lag_strategy(group))
    print(f"  score: spread {figures.spread}, most lag over mean {figures.skew}")


def names_to_names(
    topics: dict[str, Topic], members: list[Member]
) -> dict[str, dict[str, list[int]]]:
    group = Group.build(topics, members)
    return lag_strategy(group).to_names(group)


def plan_with_heaps(
    topics: dict[str, Topic], members: list[Member]
) -> dict[str, dict[str, list[int]]]:
    """The rule written without arrays: a heap of (count, lag, member) for each topic."""
    plan: dict[str, dict[str, list[int]]] = {member.id: {} for member in members}
    for name, topic in sorted(topics.items()):
        heap = [(0, 0, member.id) for member in sorted(members, key=lambda member: member.id)]
        lags = list(topic.lags or [])
        for partition in sorted(range(topic.partitions), key=lambda p: (-lags[p], p)):
            count, total, member = heap[0]
            plan[member].setdefault(name, []).append(partition)
            heapq.heapreplace(heap, (count + 1, total + lags[partition], member))
    for owned in plan.values():
        for partitions in owned.values():
            partitions.sort()
    return plan


def timed(name: str, work: Callable[[], T]) -> T:
    times = []
    for _ in range(REPEAT):
        begun = perf_counter()
        result = work()
        times.append((perf_counter() - begun) * 1000)
    print(f"  {name:40} min {min(times):8.1f} ms   median {median(times):8.1f} ms")
    return result


if __name__ == "__main__":
    main()
