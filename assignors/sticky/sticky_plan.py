"""`sticky`: balanced, near, and with as few moves as that allows.

Source: Apache Kafka's StickyAssignor (KIP-54, KIP-341, KIP-881); where it is wrong or slow, this is not.
"""

import numpy as np

from assignors.problem.assignment import (
    NOBODY,
    Assignment,
)
from assignors.problem.columns import Ints
from assignors.problem.group import Group
from assignors.sticky.equal_subscriptions import equal_subscription_owners
from assignors.sticky.mixed_subscriptions import mixed_subscription_owners


def sticky_strategy(group: Group) -> Assignment:
    """Balance first, then replicas in the owner's rack, then what its owner held already.

    Law: no plan has more even loads (by the sum of their squares); of those as even none has fewer partitions far from their
    owners; and of those none moves less. Claims count by generation, as `Assignment.held` says; what a member no longer
    reads it does not keep. With equal subscriptions there are two exceptions, so that a group at rest stays at rest: without
    claims this is Kafka's answer exactly, and where the claims are balanced and leave nothing out, what is near stays.
    Ties: members by id; static membership makes no difference.
    Cost: O(P log P) with equal subscriptions, and O(S) for each chain of hand-overs otherwise; groups so large that
    `cycles.LABOUR` cuts the search short get an even plan that is nearly the best in the rest.
    """
    return Assignment(sticky_owners(group, kept_claims(group)))


def sticky_owners(group: Group, held: Ints) -> Ints:
    """The owners, where these members hold these partitions."""
    return (
        equal_subscription_owners(group, held)
        if group.equal_subscriptions
        else mixed_subscription_owners(group, held)
    )


def kept_claims(group: Group) -> Ints:
    """By partition: who held it and may keep it, -1 nobody."""
    held = Assignment.held(group).owner.copy()
    claimed = held >= 0
    foreign = ~group.reads(held[claimed], group.partition_topic[claimed])
    held[np.flatnonzero(claimed)[foreign]] = NOBODY
    return held
