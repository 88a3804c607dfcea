"""`cooperative-sticky`: the sticky plan, with nothing given before it is given up.

Source: Apache Kafka's CooperativeStickyAssignor (KIP-429).
"""

import numpy as np

from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import (
    Bools,
    Ints,
)
from assignors.problem.group import Group
from assignors.sticky import kept_claims, sticky_owners

MAX_LOOK_AHEAD = 6  # targets that are tried for one that the next round leaves alone; the second nearly always is


def cooperative_sticky_strategy(group: Group) -> Assignment:
    """`sticky`, except that a partition which another member claims is withheld for one round.

    Law: the target is `sticky`'s. Who claims what goes elsewhere sees it missing from its assignment and gives it up; in
    the next round it is free and goes to its new owner. A double claim of the newest generation is given up by all. With
    something withheld the next round is planned too, and if that one would have to withhold in turn, its target is taken
    now: so one further round settles the group.
    Ties and cost: as `sticky`'s, twice where something is withheld.
    """
    target = sticky_owners(group, kept_claims(group))
    waits = _claimed_by_others(group, target)
    for _ in range(MAX_LOOK_AHEAD):
        if not waits.any():
            return Assignment(target)
        released = np.where(waits, NOBODY, target).astype(np.int32)
        next_target = sticky_owners(group, released)
        if not ((released >= 0) & (next_target != released)).any():
            break
        target = next_target
        waits = _claimed_by_others(group, target)
    owner = np.where(waits, NOBODY, target).astype(np.int32)
    withheld = np.where(waits, target, NOBODY).astype(np.int32)
    return Assignment(owner, withheld)


def _claimed_by_others(group: Group, target: Ints) -> Bools:
    """By partition: a member that it is not for claims it, by a claim of the newest generation there is for it."""
    newest = np.full(group.partition_count, np.iinfo(np.int64).min)
    generation = group.generation[group.claim_member]
    np.maximum.at(newest, group.claim_partition, generation)
    counts = generation == newest[group.claim_partition]
    other = (
        counts
        & (group.claim_member != target[group.claim_partition])
        & (target[group.claim_partition] >= 0)
    )
    waits = np.zeros(group.partition_count, dtype=np.bool_)
    waits[group.claim_partition[other]] = True
    return waits
