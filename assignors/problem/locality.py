"""Rack locality of members and partitions.

Guarantees: a partition is rack-remote from a member if both their racks are known and it has no
replica in the member's rack. A partition or member of unknown rack is never rack-remote.
"""

import numpy as np

from levelwind.assignors.problem.columns import Bools, Ints, Longs
from levelwind.assignors.problem.group import Group

UNKNOWN = -1
"""Index of the unknown rack in tables by rack: the last column."""


def racks_matter(group: Group) -> bool:
    """Whether rack-awareness can change a plan (KIP-881).

    True if some member shares a rack with some replica, and not every partition that is read has
    replicas in all racks.
    """
    read = group.has_reader()
    rack_sets = group.rack_set if read.all() else group.rack_set[read]
    sets = group.rack_local[np.bincount(rack_sets, minlength=len(group.rack_local)) > 0]
    has_replica: Bools = np.logical_or.reduce(sets, axis=0)  # by rack
    readers = np.diff(group.subscribed_start)[group.subscription] > 0
    some_local = bool(has_replica[group.member_rack[readers]].any())
    return some_local and not bool(sets[:, has_replica].all())


def locality_varies(group: Group) -> bool:
    """Whether some partition is rack-local to a reader, and rack-remote from another.

    So it is where all replicas are in the same racks, for which KIP-881 has no rack-awareness, and
    some members in others.
    """
    read = group.has_reader()
    sets = group.rack_local[np.unique(group.rack_set[read])]
    racks = group.member_rack[np.diff(group.subscribed_start)[group.subscription] > 0]
    rack_local: Bools = sets[:, np.unique(racks[racks >= 0])]
    return bool((rack_local.any(axis=1) & ~rack_local.all(axis=1)).any())


def rack_remote_at(group: Group, owner: Ints) -> Bools:
    """Whether each partition (P) is rack-remote from its owner."""
    racks = np.append(group.member_rack, UNKNOWN)  # NOBODY, which indexes the last, has no rack
    cell = group.rack_set * group.rack_local.shape[1] + racks[owner] % group.rack_local.shape[1]
    return np.asarray(rack_remote(group).ravel()[cell])


def rack_remote(group: Group) -> Bools:
    """Rack-remote pairs of a rack set and a rack, K x R+1 as `group.rack_local`."""
    remote: Bools = ~group.rack_local & np.logical_or.reduce(
        group.rack_local, axis=1, keepdims=True
    )
    remote[:, UNKNOWN] = False
    return remote


def rack_sets(group: Group) -> tuple[Longs, Bools]:
    """Rack set of each partition (P), and the racks of each set (K x R).

    The set of a partition whose racks are unknown is empty.
    """
    return group.rack_set.astype(np.int64), group.rack_local[:, :-1]
