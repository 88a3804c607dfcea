"""The benchmark grid, and which plans are at least as good as others in all objectives at once.

A cell is members x topics x partitions of a topic. Each has equal subscriptions or one fifth of the
topics for each member, and replicas in 2 or 3 of 3 racks; it is planned from scratch or after one
member left.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import NamedTuple

from levelwind.assignors.optimal import optimal_strategy
from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.problem.inputs import Member, Topic
from levelwind.assignors.problem.score import score
from levelwind.assignors.registry import STRATEGIES

BASELINES = ("lag", "range", "sticky", "uniform")
RACKS = ("a", "b", "c")
LAGS = {
    "pareto": lambda draw: int(draw.paretovariate(2) * 1000),
    "uniform": lambda draw: draw.randrange(100_000),
    "few": lambda draw: draw.choice((0, 0, 0, 1_000)),
}


class GridCase(NamedTuple):
    """A group of the grid."""

    cell: str
    subscribed: str
    """Share of the topics that a member reads: `all` or `1/5`."""
    racks: int
    state: str
    group: Group

    def __str__(self) -> str:
        return f"{self.cell:>14} {self.subscribed:>4} {self.racks:>2} {self.state:>6}"


class PlanFigures(NamedTuple):
    """Figures of a plan; less is better throughout."""

    spread: int
    load: float
    """Largest lag of a member over the mean."""
    cross_rack: float
    moved: int

    def beats(self, other: "PlanFigures") -> bool:
        """Whether it is at least as good in all figures and better in one."""
        return self != other and all(a <= b for a, b in zip(self, other, strict=True))


def cases(
    cells: list[str],
    subscribed: tuple[str, ...] = ("all", "1/5"),
    racks: tuple[int, ...] = (2, 3),
    lags: str = "pareto",
) -> Iterator[GridCase]:
    """Groups of some cells.

    In state `left`, the first member has left a fleet that `optimal` planned.
    """
    for cell in cells:
        for share in subscribed:
            for count in racks:
                topics, member_list = problem(cell, share, count, lags)
                group = Group.build(topics, member_list)
                yield GridCase(cell, share, count, "fresh", group)
                owned = optimal_strategy(group).to_names(group)
                stayed = [
                    replace(member, owned=owned[member.id], generation=1)
                    for member in member_list[1:]
                ]
                yield GridCase(cell, share, count, "left", Group.build(topics, stayed))


def problem(
    cell: str, share: str, racks: int, lags: str = "pareto"
) -> tuple[dict[str, Topic], list[Member]]:
    """Topics and members of a cell."""
    members, topics, partitions = map(int, cell.split("x"))
    draw = Random(4)
    names = [f"topic-{number:04}" for number in range(topics)]
    described = {
        name: Topic(
            partitions=partitions,
            replica_racks=[draw.sample(RACKS, racks) if racks else () for _ in range(partitions)],
            lags=[LAGS[lags](draw) for _ in range(partitions)],
        )
        for name in names
    }
    member_list = [
        Member(
            id=f"member-{number:05}",
            topics=names if share == "all" else draw.sample(names, max(topics // 5, 1)),
            rack=RACKS[number % 3],
        )
        for number in range(members)
    ]
    return described, member_list


def plan_figures(group: Group, assignment: Assignment) -> PlanFigures:
    """Figures of a plan."""
    figures = score(group, assignment)
    return PlanFigures(
        figures.spread, figures.skew or 0.0, figures.cross_rack or 0.0, figures.moved
    )


def answers(group: Group) -> dict[str, PlanFigures]:
    """Figures of each baseline's plan."""
    return {name: plan_figures(group, STRATEGIES[name](group)) for name in BASELINES}
