"""`cooperative-sticky`: the sticky plan; a partition moves only after its owner revoked it.

Source: Apache Kafka's CooperativeStickyAssignor (KIP-429).
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Bools, Ints
from levelwind.assignors.problem.group import Group
from levelwind.assignors.sticky import kept_claims, sticky_owners

MAX_LOOK_AHEAD = 6
"""Targets that are tried for one that the next round leaves alone; the second nearly always is."""


def cooperative_sticky_strategy(group: Group) -> Assignment:
    """`sticky`, but a partition that another member claims is withheld for one round.

    Guarantees: the target is `sticky`'s. A member whose claim goes elsewhere finds the partition
    missing from its assignment and revokes it; in the next round the partition is free and goes to
    its new owner. Of a double claim in the newest generation, every member revokes the partition;
    but a claim by a member that no longer reads the topic takes nothing from a reader that claims
    the partition, too.
    If anything is withheld, the strategy plans the next round as well; if that round would have to
    withhold again, its target becomes this round's, so that one further round settles the group.
    Ties: as `sticky`.
    Cost: as `sticky`, twice where something is withheld.
    """
    answer = withhold_claimed(group, sticky_owners(group, kept_claims(group)))
    for _ in range(MAX_LOOK_AHEAD):
        if answer.withheld is None:
            break
        next_target = sticky_owners(group, answer.owner)
        if not ((answer.owner >= 0) & (next_target != answer.owner)).any():
            break
        answer = withhold_claimed(group, next_target)
    return answer


def withhold_claimed(group: Group, target: Ints) -> Assignment:
    """Give each partition to its target, or for one round to nobody while another claims it."""
    waits = claimed_by_others(group, target)
    if not waits.any():
        return Assignment(target)
    owner = np.where(waits, NOBODY, target).astype(np.int32)
    return Assignment(owner, np.where(waits, target, NOBODY).astype(np.int32))


def claimed_by_others(group: Group, target: Ints) -> Bools:
    """Partitions of which a member other than their target has a claim that stands."""
    partition = group.claim_partition
    other = (
        group.standing_claims()
        & (group.claim_member != target[partition])
        & (target[partition] >= 0)
    )
    waits = np.zeros(group.partition_count, dtype=np.bool_)
    waits[partition[other]] = True
    return waits
