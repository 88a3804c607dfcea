"""Lag and load of each member, and the skew between members.

The one definition of skew: the pipeline's trigger, the control's decisions, the metrics,
`describe`, the simulation and the score of a plan all compute it here. The functions take columns
with one row for each owned partition, and know neither groups nor records.
"""

import numpy as np

from assignors.problem.columns import Floats, Ints, Longs


def lag_by_member(lag: Longs, owner: Ints | Longs, members: int) -> Floats:
    """Sum the lag of the partitions of each member.

    Args:
        lag: records behind, by row.
        owner: index of the member that owns the partition, by row; -1 where nobody does.
        members: their number.

    Returns:
        Records by member; whole numbers, exact below 2**53.
    """
    owned = owner >= 0
    return np.asarray(np.bincount(owner[owned], weights=lag[owned], minlength=members), np.float64)


def load_by_member(lag: Longs, owner: Ints | Longs, capacity: Floats) -> Floats:
    """Divide the lag of each member by its capacity; the arguments are those of `lag_by_member`."""
    return lag_by_member(lag, owner, len(capacity)) / capacity


def skew_of(load: Floats) -> float | None:
    """Divide the largest load by the mean load of all members; None without any load."""
    mean = float(load.mean()) if load.size else 0.0
    return float(load.max()) / mean if mean > 0 else None
