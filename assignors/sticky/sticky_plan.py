"""`sticky`: balanced, rack-local, with minimal movement.

Source: Apache Kafka's StickyAssignor (KIP-54, KIP-341, KIP-881), without its errors and its slow
cases.
"""

import numpy as np

from levelwind.assignors.problem.assignment import NOBODY, Assignment
from levelwind.assignors.problem.columns import Ints
from levelwind.assignors.problem.group import Group
from levelwind.assignors.sticky.equal_subscriptions import equal_subscription_owners
from levelwind.assignors.sticky.mixed_subscriptions import mixed_subscription_owners


def sticky_strategy(group: Group) -> Assignment:
    """Balance first, then replicas in the owner's rack, then as few moves as possible.

    Guarantees: no plan has more even loads (by the sum of their squares); of the plans as even,
    none has fewer rack-remote partitions; and of those, none moves fewer. Claims count by
    generation, as in `Assignment.held`; a member does not keep partitions of a topic that it no
    longer reads. Equal subscriptions have two exceptions, so that a group at rest stays at rest:
    without claims the plan is exactly Kafka's, and where the claims are balanced and cover every
    partition, a partition that is not rack-remote stays.
    Ties: members by id; static membership makes no difference.
    Cost: O(P log P) with equal subscriptions, otherwise O(S) for each chain of transfers. A group
    so large that `transfer_cycles.MAX_ARC_VISITS` ends the search early gets an even plan that is
    nearly optimal in locality and movement.
    """
    return Assignment(sticky_owners(group, kept_claims(group)))


def sticky_owners(group: Group, held: Ints) -> Ints:
    """Owner of each partition, from the member that holds it now, -1 for nobody."""
    return (
        equal_subscription_owners(group, held)
        if group.equal_subscriptions
        else mixed_subscription_owners(group, held)
    )


def kept_claims(group: Group) -> Ints:
    """Member that held each partition and may keep it, -1 for nobody."""
    held = Assignment.held(group).owner.copy()
    claimed = held >= 0
    foreign = ~group.reads(held[claimed], group.partition_topic[claimed])
    held[np.flatnonzero(claimed)[foreign]] = NOBODY
    return held
