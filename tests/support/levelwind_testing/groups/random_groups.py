"""Random problems, small and mean, from one description for hypothesis (which shrinks) and for a seeded generator."""

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from assignors.problem.group import Group
from assignors.problem.inputs import (
    Member,
    Topic,
)

Pick = Callable[[int, int], int]  # a number from the first to the second, both included


class RandomProblem(NamedTuple):
    topics: dict[str, Topic]
    members: list[Member]

    @property
    def group(self) -> Group:
        return Group.build(self.topics, self.members)


class ProblemShape(NamedTuple):
    """What may occur; a test names what it leaves out."""

    topics: int = 6
    partitions: int = 9
    members: int = 7
    racks: int = 4
    equal: bool | None = None  # None: by chance
    static: bool = True
    claims: bool = True
    missing: bool = True
    lags: bool = True


ANYTHING = ProblemShape()


def problem(pick: Pick, shape: ProblemShape = ANYTHING) -> RandomProblem:
    racks = [f"r{n}" for n in range(pick(0, shape.racks))] if pick(0, 3) else []
    names = [f"t{n}" for n in range(pick(1, shape.topics))]
    same_size = pick(1, shape.partitions) if pick(0, 2) == 0 else None
    topics = {name: topic(pick, shape, racks, same_size) for name in names}
    if shape.missing and pick(0, 4) == 0:
        names = [*names, "gone"]
    equal = shape.equal if shape.equal is not None else pick(0, 1) == 0
    wishes = [some(pick, names) if pick(0, 9) else [] for _ in range(3)]
    shared = some(pick, names) if pick(0, 3) == 0 else list(names)
    members = []
    for number in range(pick(1, shape.members)):
        wish = shared if equal else (some(pick, names) if pick(0, 1) else wishes[pick(0, 2)])
        members.append(
            Member(
                id=f"m{pick(0, 9)}x{number}",
                topics=wish,
                rack=racks[pick(0, len(racks) - 1)] if racks and pick(0, 5) else None,
                instance_id=f"i{pick(0, 9)}x{number}" if shape.static and pick(0, 3) == 0 else None,
                owned=claims(pick, topics, wish) if shape.claims and pick(0, 2) else None,
                generation=pick(3, 5) if pick(0, 3) == 0 else 5,
                priority=pick(0, 2),
                capacity=pick(1, 4) / 2,
                container=f"c{pick(0, 2)}" if pick(0, 1) else None,
            )
        )
    return RandomProblem(topics, members)


def topic(pick: Pick, shape: ProblemShape, racks: list[str], same_size: int | None) -> Topic:
    size = same_size if same_size is not None and pick(0, 4) else pick(0, shape.partitions)
    return Topic(
        partitions=size,
        replica_racks=[some(pick, racks, 3) for _ in range(size)] if racks and pick(0, 6) else None,
        lags=[pick(0, 3) * 10 ** pick(0, 4) for _ in range(size)]
        if shape.lags and pick(0, 3)
        else None,
    )


def claims(pick: Pick, topics: Mapping[str, Topic], wish: list[str]) -> dict[str, list[int]]:
    owned = {}
    for name, there in topics.items():
        if pick(0, 2) and (name in wish or pick(0, 3) == 0):
            mine = sorted({pick(0, max(there.partitions - 1, 0)) for _ in range(pick(1, 4))})
            owned[name] = [partition for partition in mine if partition < there.partitions]
    if pick(0, 9) == 0:
        owned["unknown"] = [0, 1]
    return {name: partitions for name, partitions in owned.items() if partitions}


def some(pick: Pick, names: list[str], most: int | None = None) -> list[str]:
    chosen = [name for name in names if pick(0, 1)]
    return chosen[:most] if most is not None else chosen


def seeded_problem(seed: int, shape: ProblemShape = ANYTHING) -> RandomProblem:
    return problem(Random(seed).randint, shape)


@st.composite
def problems(draw: st.DrawFn, shape: ProblemShape = ANYTHING) -> RandomProblem:
    return problem(lambda low, high: draw(st.integers(low, high)), shape)
