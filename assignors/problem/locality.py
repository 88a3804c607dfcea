"""What is near and what is far, where racks are known.

Law: a partition is far from a member if both their racks are known and it has no replica in the member's. What is not known is
never far.
"""

import numpy as np

from assignors.problem.columns import (
    Bools,
    Ints,
    Longs,
)
from assignors.problem.group import Group

UNKNOWN = -1  # the place of the unknown rack in tables by rack: the last


def racks_matter(group: Group) -> bool:
    """Some member shares a rack with some replica, and not every partition that is read is in all racks (KIP-881)."""
    read = group.has_reader()
    rack_sets = group.rack_set if read.all() else group.rack_set[read]
    sets = group.rack_local[np.bincount(rack_sets, minlength=len(group.rack_local)) > 0]
    there: Bools = np.logical_or.reduce(sets, axis=0)
    readers = np.diff(group.subscribed_start)[group.subscription] > 0
    return bool(there[group.member_rack[readers]].any()) and not bool(sets[:, there].all())


def rack_remote_at(group: Group, owner: Ints) -> Bools:
    """By partition: its racks and its owner's are known, and it has no replica in the owner's."""
    racks = np.append(group.member_rack, UNKNOWN)  # nobody, last as -1, is nowhere
    cell = group.rack_set * group.rack_local.shape[1] + racks[owner] % group.rack_local.shape[1]
    return np.asarray(rack_remote(group).ravel()[cell])


def rack_remote(group: Group) -> Bools:
    """By set of racks and rack, as `group.rack_local`: both are known, and the one is not in the other."""
    away: Bools = ~group.rack_local & np.logical_or.reduce(group.rack_local, axis=1, keepdims=True)
    away[:, UNKNOWN] = False
    return away


def rack_sets(group: Group) -> tuple[Longs, Bools]:
    """The set of racks that each partition's replicas are in, and by set which racks that is; none where they are unknown."""
    return group.rack_set.astype(np.int64), group.rack_local[:, :-1]
