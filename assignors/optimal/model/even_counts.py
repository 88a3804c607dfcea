"""The most even counts that subscriptions allow, exactly.

Law: counts are decreasingly minimal: the largest is as small as can be, then as few members as can be have it, then the
same of the rest. That also makes the sum of their squares least (Frank and Murota, "Decreasing minimization on M-convex
sets"). All such answers share one decomposition: *blocks* of members and of the partitions that go to them and to nobody
else, within each of which counts are `level` or one more, the latter for exactly `extras` members.
Cost: a few largest flows for each block, over audiences and signatures, not over partitions and members.
"""

from dataclasses import dataclass

import numpy as np

from assignors.problem.columns import (
    Bools,
    Longs,
)
from assignors.solver import (
    UNLIMITED,
    Arcs,
    concat_arcs,
    max_flow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """B blocks; -1: belongs to none, since it has no partitions or gets none."""

    of_audience: Longs  # by audience
    of_signature: Longs  # by signature
    level: Longs  # by block
    extras: Longs  # by block


def blocks(supply: Longs, allowed: Bools, size: Longs) -> Components:
    """Decompose.

    Args:
        supply: by audience, how many partitions it reads.
        allowed: by audience and signature, whether members of the signature may have them.
        size: by signature, how many members have it.
    """
    of_audience = np.full(len(supply), -1, dtype=np.int64)
    of_signature = np.full(len(size), -1, dtype=np.int64)
    level: list[int] = []
    extras: list[int] = []
    free = allowed.copy()
    open_ = (supply > 0) & allowed.any(axis=1)
    while open_.any():
        there = np.flatnonzero(open_)
        peak, most, highest = _peak(supply[there], free[there], size)
        members = free[there[peak]].any(axis=0)
        of_audience[there[peak]] = len(level)
        of_signature[members] = len(level)
        full = highest == int(size[members].sum())
        level.append(most if full else most - 1)
        extras.append(0 if full else highest)
        open_[there[peak]] = False
        free[:, members] = False
    return Components(
        of_audience=of_audience,
        of_signature=of_signature,
        level=np.array(level, dtype=np.int64),
        extras=np.array(extras, dtype=np.int64),
    )


def _peak(supply: Longs, allowed: Bools, size: Longs) -> tuple[Bools, int, int]:
    """The audiences whose readers have the most, how many that is, and how many members have as many."""
    total = int(supply.sum())
    most = -(-total // int(size[allowed.any(axis=0)].sum()))
    if bool((allowed == allowed[0]).all()):
        return (
            np.ones(len(supply), np.bool_),
            most,
            total - (most - 1) * int(size[allowed[0]].sum()),
        )
    while True:
        flow, tight = _poured(supply, allowed, size * most)
        if flow == total:
            break
        most = -(-int(supply[tight].sum()) // int(size[allowed[tight].any(axis=0)].sum()))
    flow, tight = _poured(supply, allowed, size * (most - 1))
    return tight, most, total - flow


def _poured(supply: Longs, allowed: Bools, room: Longs) -> tuple[int, Bools]:
    """How much the signatures' rooms take, and the audiences that are short of room."""
    reader_set, signature = np.nonzero(allowed)
    first = 2 + len(supply)
    arcs = concat_arcs(
        Arcs(np.zeros(len(supply), np.int64), 2 + np.arange(len(supply)), supply),
        Arcs(2 + reader_set, first + signature, np.full(len(reader_set), UNLIMITED)),
        Arcs(first + np.arange(len(room)), np.ones(len(room), np.int64), room),
    )
    flow, side = max_flow(arcs, 0, 1)
    return flow, side[2:first]
