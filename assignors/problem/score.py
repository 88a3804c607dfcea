"""Score of an assignment.

Guarantees: the score counts the target (withheld partitions included) and only members that read
some topic. Where nothing can be measured (no racks, no lag) a figure is None, never a flattering 0.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.columns import Bools, Ints, Longs
from levelwind.assignors.problem.drain import DrainFigures, drain_figures
from levelwind.assignors.problem.group import Group

FIGURES = ("spread", "cross_rack", "moved", "skew", "drain_seconds", "wait_seconds", "utilisation")
"""The figures of a score that are shown, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Balance, locality, load and disruption of an assignment; less is better in every figure."""

    spread: int
    """Largest minus smallest number of partitions of a reading member."""
    cross_rack: float | None
    """Share of rack-remote partitions among those whose racks are known on both sides."""
    moved: int
    """Partitions that had an owner and whose owner changed."""
    skew: float | None = None
    """Load of the most loaded member over the mean load of the members; None without any load."""
    drain_seconds: float | None = None
    """Load of the most loaded member in seconds, at the group's horizon; None without any load."""
    wait_seconds: float | None = None
    """Mean wait of the records of the group's horizon, in seconds; None without any load."""
    utilisation: float | None = None
    """Largest share of its capacity that the arrivals of a member need; None without arrivals."""
    drain: DrainFigures | None = None
    """The same load with its parts."""

    def as_json(self) -> dict[str, int | float | None]:
        """Figures by name."""
        return {figure: getattr(self, figure) for figure in FIGURES}


def score(group: Group, assignment: Assignment) -> Score:
    """Score an assignment against its group and against what the members held before."""
    owner = assignment.target
    held = Assignment.held(group).owner
    reading = np.diff(group.subscribed_start)[group.subscription] > 0
    figures = load_figures(group, owner)
    return Score(
        spread=_spread(counts(group, owner), reading),
        cross_rack=_cross_rack(group, owner),
        moved=int(np.count_nonzero((held >= 0) & (held != owner))),
        skew=None if figures.skew is None else round(figures.skew, 6),
        drain_seconds=round(figures.heaviest, 6) if figures.mean else None,
        wait_seconds=round(figures.wait, 6) if figures.mean else None,
        utilisation=round(figures.utilisation, 6) if figures.arrivals else None,
        drain=figures,
    )


def load_figures(group: Group, owner: Ints) -> DrainFigures:
    """Load of the members that read some topic, with what nobody owns yet in the group's part.

    Args:
        group: the group.
        owner: owner of each partition.
    """
    read = group.has_reader()
    return drain_figures(
        np.where(read, group.lag, 0),
        np.where(read, group.rate, 0.0),
        owner,
        group.capacity,
        assumed=group.assumed,
        counted=np.diff(group.subscribed_start)[group.subscription] > 0,
    )


def counts(group: Group, owner: Ints) -> Longs:
    """Number of partitions of each member (M)."""
    return np.bincount(owner[owner >= 0], minlength=len(group.members))


def _spread(count: Longs, reading: Bools) -> int:
    of_readers = count[reading]
    return int(of_readers.max() - of_readers.min()) if len(of_readers) else 0


def _cross_rack(group: Group, owner: Ints) -> float | None:
    known = np.flatnonzero((owner >= 0) & group.racks_known())
    known = known[group.member_rack[owner[known]] >= 0]
    if not len(known):
        return None
    local = group.local(owner[known], known)
    return round(1 - float(np.count_nonzero(local)) / len(known), 6)
