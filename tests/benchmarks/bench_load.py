"""Load of `optimal` beside the other strategies, offline: utilisation, slow members, backlogs.

    python tests/benchmarks/bench_load.py [--seeds 5] [--sizes 36x6,72x12]

Members read 300 records a second each, in three racks; partitions are in two topics. All figures
are over seeds, median and worst.

`arrivals`: Zipf arrivals at 0.70 of the members' capacity, from scratch: largest utilisation of a
member. A member above 1 grows for ever.
`slow`: a third of the members reads a third as fast and says nothing; speeds are learned. Even
arrivals at 0.70 of the capacity, from owners of even counts: largest utilisation of a slow member.
`backlog`: 30 minutes of one member's reading lie unevenly in the partitions of one member, and
Zipf arrivals at half of the capacity elsewhere. A fluid model drains it: members read all their
partitions in equal shares; after the first plan another one is made where the largest load is 5 %
above the best, three in all. Time until a hundredth is left, over the time to drain of members who
share everything; the model ends after an hour, six times the ideal.
"""

import argparse
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.columns import Floats, Ints
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import load_figures, score
from levelwind.assignors.registry import strategy_named

SPEED, UTILISATION, RACKS = 300.0, 0.70, ("a", "b", "c")
TICK_SECONDS, LONGEST_SECONDS, LEFT = 1.0, 3600.0, 0.01
PLAN_EVERY_SECONDS, MAX_PLANS, WORTH_A_PLAN = 10.0, 3, 1.05
CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "range": {},
    "roundrobin": {},
    "sticky": {},
    "uniform": {},
    "lag": {},
    "optimal, even": {"counts": "even"},
    "optimal, slack 1": {"count_slack": 1},
    "optimal, slack 2": {"count_slack": 2},
    "optimal, slack 4": {"count_slack": 4},
    "optimal, 60 s": {"count_slack": 4, "horizon": 60.0},
    "optimal": {},
}


@dataclass(frozen=True, slots=True)
class Situation:
    """Partitions, members, and who owns what before the first plan."""

    lag: Floats
    """P: records behind."""
    rate: Floats
    """P: records a second."""
    speed: Floats
    """M: records a second."""
    owner: Ints | None
    """P: owner of each partition; None where nobody owns anything."""
    racks: list[list[str]]
    """P: racks of the replicas."""

    def group(self, lag: Floats, owner: Ints | None) -> Group:
        """The problem at some later time."""
        split = len(lag) * 2 // 3
        topics = {
            name: Topic(
                partitions=len(lag[part]),
                lags=np.rint(lag[part]).astype(np.int64).tolist(),
                rates=self.rate[part].tolist(),
                replica_racks=self.racks[part],
            )
            for name, part in (("t0", slice(0, split)), ("t1", slice(split, None)))
        }
        members = []
        for number, speed in enumerate(self.speed.tolist()):
            owned = None
            if owner is not None:
                own = np.flatnonzero(owner == number)
                first, second = own[own < split], own[own >= split] - split
                owned = {"t0": first.tolist(), "t1": second.tolist()}
            members.append(
                Member(
                    id=f"m{number:04}",
                    topics=["t0", "t1"],
                    rack=RACKS[number % 3],
                    speed=speed,
                    owned=owned,
                    generation=-1 if owned is None else 1,
                )
            )
        return Group.build(topics, members)


def zipf(draw: random.Random, partitions: int, total: float) -> Floats:
    weights = [1 / rank**0.8 for rank in range(1, partitions + 1)]
    draw.shuffle(weights)
    return np.array(weights) * (total / sum(weights))


def situation(draw: random.Random, partitions: int, members: int) -> Situation:
    """Nobody owns anything, nothing arrives."""
    return Situation(
        lag=np.zeros(partitions),
        rate=np.zeros(partitions),
        speed=np.full(members, SPEED),
        owner=None,
        racks=[draw.sample(RACKS, 2) for _ in range(partitions)],
    )


def arrivals(draw: random.Random, partitions: int, members: int, name: str) -> float:
    now = situation(draw, partitions, members)
    # The heaviest partition is alone at 0.72 in the small group; in larger ones it is split up.
    rate = zipf(draw, 36, 6 * SPEED * UTILISATION)
    rate = np.concatenate([draw.sample(rate.tolist(), 36) for _ in range(partitions // 36)])
    now = Situation(now.lag, rate, now.speed, None, now.racks)
    group = now.group(now.lag, None)
    return score(group, _plan(name, group)).utilisation or 0.0


def slow(draw: random.Random, partitions: int, members: int, name: str) -> float:
    now = situation(draw, partitions, members)
    speed = now.speed.copy()
    slow_members = draw.sample(range(members), members // 3)
    speed[slow_members] /= 3
    rate = np.full(partitions, UTILISATION * speed.sum() / partitions)
    owner = (np.arange(partitions) % members).astype(np.int32)
    now = Situation(now.lag, rate, speed, owner, now.racks)
    group = now.group(now.lag, owner)
    answer = _plan(name, group).target
    return float(max(rate[answer == number].sum() / speed[number] for number in slow_members))


def backlog(draw: random.Random, partitions: int, members: int, name: str) -> float:
    now = situation(draw, partitions, members)
    owner = (np.arange(partitions) % members).astype(np.int32)
    behind = np.flatnonzero(owner == 0)
    lag, rate = now.lag.copy(), now.rate.copy()
    weights = np.array([draw.uniform(0.5, 1.5) for _ in behind])
    lag[behind] = weights / weights.sum() * 1800 * SPEED * members / 6
    elsewhere = np.flatnonzero(owner != 0)
    rate[elsewhere] = zipf(draw, len(elsewhere), 0.5 * members * SPEED)
    now = Situation(lag, rate, now.speed, owner, now.racks)
    ideal = float(lag.sum() / (now.speed.sum() - rate.sum()))
    return drained_after(now, name) / ideal


def drained_after(now: Situation, name: str) -> float:
    """Seconds until a hundredth of what was behind at the start is left."""
    lag, owner, plans, seconds = now.lag.copy(), now.owner, 0, 0.0
    assert owner is not None
    drained = lag.sum() * LEFT
    while lag.sum() > drained and seconds < LONGEST_SECONDS:
        if plans < MAX_PLANS and seconds % PLAN_EVERY_SECONDS == 0:
            group = now.group(lag, owner)
            figures = load_figures(group, owner)
            if figures.heaviest > WORTH_A_PLAN * figures.best:
                target = _plan(name, group).target
                plans += 1 if (target != owner).any() else 0
                owner = target
        lag = lag + now.rate * TICK_SECONDS
        for member, speed in enumerate(now.speed.tolist()):
            own = owner == member
            lag[own] -= _read_in_equal_shares(lag[own], speed * TICK_SECONDS)
        seconds += TICK_SECONDS
    return seconds


def _read_in_equal_shares(lag: Floats, records: float) -> Floats:
    """What is read of each partition: as much of each, or all of it."""
    if lag.sum() <= records:
        return lag
    ascending = np.sort(lag)
    below = np.cumsum(ascending)
    rest = len(lag) - 1 - np.arange(len(lag))
    last = int(np.argmax(below + rest * ascending >= records))
    level = (records - (below[last] - ascending[last])) / (rest[last] + 1)
    return np.minimum(lag, level)


def _plan(name: str, group: Group) -> Assignment:
    return strategy_named(name.split(",", maxsplit=1)[0], CANDIDATES[name])(group)


CASES: Mapping[str, Callable[[random.Random, int, int, str], float]] = {
    "arrivals": arrivals,
    "slow": slow,
    "backlog": backlog,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", default="36x6,72x12", help="partitions x members")
    arguments = parser.parse_args()
    for size in arguments.sizes.split(","):
        partitions, members = map(int, size.split("x"))
        print(f"{size + ', median (worst)':28}" + "".join(f"{case:>20}" for case in CASES))
        for name in CANDIDATES:
            line = f"{name:28}"
            for case in CASES.values():
                found = [
                    case(random.Random(seed), partitions, members, name)
                    for seed in range(arguments.seeds)
                ]
                line += f"{f'{median(found):.3f} ({max(found):.3f})':>20}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
