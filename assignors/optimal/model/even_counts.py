"""The most even partition counts that subscriptions allow, computed exactly.

Guarantees: counts are decreasingly minimal: the largest count is as small as possible, then as few
members as possible have it, then the same holds for the rest. That also minimises the sum of the
squared counts (Frank and Murota, "Decreasing minimization on M-convex sets"). All such counts share
one decomposition into *components*: members, and the partitions that only these members get; within
a component every count is `quota` or, for exactly `extras` members, one more.
Cost: a few maximum flows for each component, over reader sets and eligibilities, not over
partitions and members.
"""

from dataclasses import dataclass

import numpy as np

from levelwind.assignors.problem.columns import Bools, Longs
from levelwind.assignors.solver import UNLIMITED, Arcs, concat_arcs, max_flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """B components of reader sets and eligibilities.

    An index of -1 means no component: a reader set without partitions, members that get none.
    """

    of_reader_set: Longs
    """A: the component of each reader set."""
    of_eligibility: Longs
    """G: the component of each eligibility."""
    quota: Longs
    """B: partitions that every member of the component gets."""
    extras: Longs
    """B: members that get one partition more than the quota."""


def decompose(supply: Longs, allowed: Bools, size: Longs) -> Components:
    """Decompose reader sets and eligibilities into components of even counts.

    Args:
        supply: partitions of each reader set (A).
        allowed: whether members of an eligibility may own partitions of a reader set (A x G).
        size: members of each eligibility (G).
    """
    of_reader_set = np.full(len(supply), -1, dtype=np.int64)
    of_eligibility = np.full(len(size), -1, dtype=np.int64)
    quota: list[int] = []
    extras: list[int] = []
    free = allowed.copy()
    open_ = (supply > 0) & allowed.any(axis=1)
    while open_.any():
        reader_sets = np.flatnonzero(open_)
        fullest, max_count, at_max = _fullest_component(
            supply[reader_sets], free[reader_sets], size
        )
        members = free[reader_sets[fullest]].any(axis=0)
        of_reader_set[reader_sets[fullest]] = len(quota)
        of_eligibility[members] = len(quota)
        all_at_max = at_max == int(size[members].sum())
        quota.append(max_count if all_at_max else max_count - 1)
        extras.append(0 if all_at_max else at_max)
        open_[reader_sets[fullest]] = False
        free[:, members] = False
    return Components(
        of_reader_set=of_reader_set,
        of_eligibility=of_eligibility,
        quota=np.array(quota, dtype=np.int64),
        extras=np.array(extras, dtype=np.int64),
    )


def _fullest_component(supply: Longs, allowed: Bools, size: Longs) -> tuple[Bools, int, int]:
    """The reader sets whose members have the largest count.

    Returns them, that count, and how many members have it.
    """
    total = int(supply.sum())
    max_count = -(-total // int(size[allowed.any(axis=0)].sum()))
    if bool((allowed == allowed[0]).all()):
        return (
            np.ones(len(supply), np.bool_),
            max_count,
            total - (max_count - 1) * int(size[allowed[0]].sum()),
        )
    while True:
        flow, tight = _max_placed(supply, allowed, size * max_count)
        if flow == total:
            break
        max_count = -(-int(supply[tight].sum()) // int(size[allowed[tight].any(axis=0)].sum()))
    flow, tight = _max_placed(supply, allowed, size * (max_count - 1))
    return tight, max_count, total - flow


def _max_placed(supply: Longs, allowed: Bools, room: Longs) -> tuple[int, Bools]:
    """The number of partitions that fit, and the reader sets that are short of room.

    `room` is the number of partitions that the members of each eligibility (G) may get.
    """
    reader_set, eligibility = np.nonzero(allowed)
    first = 2 + len(supply)
    arcs = concat_arcs(
        Arcs(np.zeros(len(supply), np.int64), 2 + np.arange(len(supply)), supply),
        Arcs(2 + reader_set, first + eligibility, np.full(len(reader_set), UNLIMITED)),
        Arcs(first + np.arange(len(room)), np.ones(len(room), np.int64), room),
    )
    flow, side = max_flow(arcs, 0, 1)
    return flow, side[2:first]


def connect(supply: Longs, allowed: Bools) -> Components:
    """Group reader sets and eligibilities that some partition connects, whatever the counts.

    The arguments are those of `decompose`. No count is fixed: quotas and extras are 0.
    """
    pairs = allowed & (supply > 0)[:, None]
    label = np.where(pairs.any(axis=1), np.arange(len(supply)), -1)
    of_eligibility = np.full(pairs.shape[1], -1, dtype=np.int64)
    while True:
        reached = np.where(pairs, label[:, None], -1).max(axis=0, initial=-1)
        joined = np.where(pairs, reached[None, :], -1).max(axis=1, initial=-1)
        if np.array_equal(joined, label) and np.array_equal(reached, of_eligibility):
            break
        label, of_eligibility = joined, reached
    kept = np.unique(label[label >= 0])
    return Components(
        of_reader_set=np.where(label >= 0, np.searchsorted(kept, label), -1),
        of_eligibility=np.where(of_eligibility >= 0, np.searchsorted(kept, of_eligibility), -1),
        quota=np.zeros(len(kept), dtype=np.int64),
        extras=np.zeros(len(kept), dtype=np.int64),
    )
