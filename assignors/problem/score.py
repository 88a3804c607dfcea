"""Score of an assignment.

Guarantees: the score counts the target (withheld partitions included) and only members that read
some topic. Where nothing can be measured (no racks, no lag) a figure is None, never a flattering 0.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.assignment import Assignment
from assignors.problem.columns import Bools, Floats, Ints, Longs
from assignors.problem.drain import skew_of, sum_by_member
from assignors.problem.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Balance, locality, load and disruption of an assignment; less is better in every figure."""

    spread: int
    """Largest minus smallest number of partitions of a reading member."""
    cross_rack: float | None
    """Share of rack-remote partitions among those whose racks are known on both sides."""
    moved: int
    """Partitions that had an owner and whose owner changed."""
    lag_max_over_mean: float | None
    """Lag over capacity of the most loaded member, divided by the mean over the members."""

    def as_json(self) -> dict[str, int | float | None]:
        """Figures by name."""
        return {
            "spread": self.spread,
            "cross_rack": self.cross_rack,
            "moved": self.moved,
            "lag_max_over_mean": self.lag_max_over_mean,
        }


def score(group: Group, assignment: Assignment) -> Score:
    """Score an assignment against its group and against what the members held before."""
    owner = assignment.target
    held = Assignment.held(group).owner
    reading = np.diff(group.subscribed_start)[group.subscription] > 0
    skew = skew_of(loads(group, owner)[reading])
    return Score(
        spread=_spread(counts(group, owner), reading),
        cross_rack=_cross_rack(group, owner),
        moved=int(np.count_nonzero((held >= 0) & (held != owner))),
        lag_max_over_mean=None if skew is None else round(skew, 6),
    )


def counts(group: Group, owner: Ints) -> Longs:
    """Number of partitions of each member (M)."""
    return np.bincount(owner[owner >= 0], minlength=len(group.members))


def loads(group: Group, owner: Ints) -> Floats:
    """Each member's lag over its capacity."""
    return sum_by_member(group.lag, owner, len(group.members)) / group.capacity


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
