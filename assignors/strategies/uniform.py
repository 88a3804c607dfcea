"""`uniform`: balanced and sticky as the broker's assignor, and rack-local besides.

Source: the UniformAssignor of Kafka's group coordinator (KIP-848), with the rack locality of
KIP-881 that the coordinator dropped.
"""

from levelwind.assignors.problem.assignment import Assignment
from levelwind.assignors.problem.group import Group
from levelwind.assignors.sticky import kept_claims
from levelwind.assignors.sticky.equal_subscriptions import equal_subscription_owners
from levelwind.assignors.sticky.mixed_subscriptions import mixed_subscription_owners


def uniform_strategy(group: Group) -> Assignment:
    """`sticky`, but members are filled one after another, so that each reads few topics.

    Guarantees: balance first, then replicas in the owner's rack, then claims. With equal
    subscriptions, unowned partitions go to the first member until it has its share, then to the
    next, so that partitions of a topic stay together.
    Ties: members by id.
    Cost: as `sticky`.
    """
    held = kept_claims(group)
    return Assignment(
        equal_subscription_owners(group, held, fill_by_member=True)
        if group.equal_subscriptions
        else mixed_subscription_owners(group, held)
    )
