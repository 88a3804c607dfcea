"""Random problems, small and full of special cases.

One description serves hypothesis, which shrinks, and a seeded generator, which is fast.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic

PickInteger = Callable[[int, int], int]
"""Random integer from the first to the second argument, both included."""


class RandomProblem(NamedTuple):
    """Topics and members as a caller would give them, and the group that they make."""

    topics: dict[str, Topic]
    members: list[Member]

    @property
    def group(self) -> Group:
        return Group.build(self.topics, self.members)


class ProblemShape(NamedTuple):
    """Sizes and features of random problems; a test names those that it leaves out."""

    topics: int = 6
    partitions: int = 9
    members: int = 7
    racks: int = 4
    equal: bool | None = None
    """Whether all members have one subscription; None: by chance."""
    static: bool = True
    claims: bool = True
    missing: bool = True
    lags: bool = True


ANYTHING = ProblemShape()


def random_problem(pick: PickInteger, shape: ProblemShape = ANYTHING) -> RandomProblem:
    racks = [f"r{n}" for n in range(pick(0, shape.racks))] if pick(0, 3) else []
    names = [f"t{n}" for n in range(pick(1, shape.topics))]
    same_size = pick(1, shape.partitions) if pick(0, 2) == 0 else None
    topics = {name: random_topic(pick, shape, racks, same_size) for name in names}
    if shape.missing and pick(0, 4) == 0:
        names = [*names, "gone"]
    equal = shape.equal if shape.equal is not None else pick(0, 1) == 0
    subscriptions = [subset(pick, names) if pick(0, 9) else [] for _ in range(3)]
    shared = subset(pick, names) if pick(0, 3) == 0 else list(names)
    members = []
    for number in range(pick(1, shape.members)):
        subscription = (
            shared if equal else (subset(pick, names) if pick(0, 1) else subscriptions[pick(0, 2)])
        )
        members.append(
            Member(
                id=f"m{pick(0, 9)}x{number}",
                topics=subscription,
                rack=racks[pick(0, len(racks) - 1)] if racks and pick(0, 5) else None,
                instance_id=f"i{pick(0, 9)}x{number}" if shape.static and pick(0, 3) == 0 else None,
                owned=random_claims(pick, topics, subscription)
                if shape.claims and pick(0, 2)
                else None,
                generation=pick(3, 5) if pick(0, 3) == 0 else 5,
                priority=pick(0, 2),
                capacity=pick(1, 4) / 2,
                container=f"c{pick(0, 2)}" if pick(0, 1) else None,
            )
        )
    return RandomProblem(topics, members)


def random_topic(
    pick: PickInteger, shape: ProblemShape, racks: list[str], same_size: int | None
) -> Topic:
    size = same_size if same_size is not None and pick(0, 4) else pick(0, shape.partitions)
    return Topic(
        partitions=size,
        replica_racks=[subset(pick, racks, 3) for _ in range(size)]
        if racks and pick(0, 6)
        else None,
        lags=[pick(0, 3) * 10 ** pick(0, 4) for _ in range(size)]
        if shape.lags and pick(0, 3)
        else None,
    )


def random_claims(
    pick: PickInteger, topics: Mapping[str, Topic], subscription: list[str]
) -> dict[str, list[int]]:
    owned = {}
    for name, topic_inputs in topics.items():
        if pick(0, 2) and (name in subscription or pick(0, 3) == 0):
            numbers = sorted(
                {pick(0, max(topic_inputs.partitions - 1, 0)) for _ in range(pick(1, 4))}
            )
            owned[name] = [
                partition for partition in numbers if partition < topic_inputs.partitions
            ]
    if pick(0, 9) == 0:
        owned["unknown"] = [0, 1]
    return {name: partitions for name, partitions in owned.items() if partitions}


def subset(pick: PickInteger, names: list[str], most: int | None = None) -> list[str]:
    chosen = [name for name in names if pick(0, 1)]
    return chosen[:most] if most is not None else chosen


def seeded_problem(seed: int, shape: ProblemShape = ANYTHING) -> RandomProblem:
    return random_problem(Random(seed).randint, shape)


@st.composite
def problems(draw: st.DrawFn, shape: ProblemShape = ANYTHING) -> RandomProblem:
    return random_problem(lambda low, high: draw(st.integers(low, high)), shape)
