"""What an assignment is worth.

Law: the score counts the target (what is withheld included) and only members that read something. Where there is nothing
to measure (no racks, no lag) a figure is None, never a flattering 0.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.assignment import Assignment
from assignors.problem.columns import (
    Bools,
    Floats,
    Ints,
    Longs,
)
from assignors.problem.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How even, how local, how loaded and how disruptive an assignment is; less is better throughout."""

    spread: int  # most minus fewest partitions of a reading member
    cross_rack: (
        float | None
    )  # of the partitions with racks known on both sides, the share without a replica in its owner's
    moved: int  # partitions that somebody held and whose owner changed
    lag_max_over_mean: (
        float | None
    )  # the most loaded member's lag over capacity, relative to the mean

    def as_json(self) -> dict[str, int | float | None]:
        """The figures by name."""
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
    return Score(
        spread=_spread(counts(group, owner), reading),
        cross_rack=_cross_rack(group, owner),
        moved=int(np.count_nonzero((held >= 0) & (held != owner))),
        lag_max_over_mean=_skew(loads(group, owner), reading),
    )


def counts(group: Group, owner: Ints) -> Longs:
    """Partitions of each member."""
    return np.bincount(owner[owner >= 0], minlength=len(group.members))


def loads(group: Group, owner: Ints) -> Floats:
    """Each member's lag over its capacity."""
    owned = owner >= 0
    return (
        np.bincount(owner[owned], weights=group.lag[owned], minlength=len(group.members))
        / group.capacity
    )


def _spread(count: Longs, reading: Bools) -> int:
    theirs = count[reading]
    return int(theirs.max() - theirs.min()) if len(theirs) else 0


def _cross_rack(group: Group, owner: Ints) -> float | None:
    known = np.flatnonzero((owner >= 0) & group.racks_known())
    known = known[group.member_rack[owner[known]] >= 0]
    if not len(known):
        return None
    local = group.local(owner[known], known)
    return round(1 - float(np.count_nonzero(local)) / len(known), 6)


def _skew(load: Floats, reading: Bools) -> float | None:
    theirs = load[reading]
    mean = float(theirs.mean()) if len(theirs) else 0.0
    return round(float(theirs.max()) / mean, 6) if mean > 0 else None
