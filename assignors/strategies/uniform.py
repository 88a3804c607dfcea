"""`uniform`: balanced and sticky as the broker's, and near as the broker's no longer is.

Source: the UniformAssignor of Kafka's group coordinator (KIP-848), with KIP-881's locality, which it lost.
"""

from assignors.problem.assignment import Assignment
from assignors.problem.group import Group
from assignors.sticky import kept_claims
from assignors.sticky.equal_subscriptions import equal_subscription_owners
from assignors.sticky.mixed_subscriptions import mixed_subscription_owners


def uniform_strategy(group: Group) -> Assignment:
    """As `sticky`, but members are filled one after another, so that a member has few topics rather than few of each.

    Law: balance first, then replicas in the owner's rack, then claims. With equal subscriptions what nobody holds goes to the
    first member until it has its share, then to the next: partitions of a topic stay together.
    Ties: members by id.
    Cost: as `sticky`'s.
    """
    held = kept_claims(group)
    return Assignment(
        equal_subscription_owners(group, held, fill_by_member=True)
        if group.equal_subscriptions
        else mixed_subscription_owners(group, held)
    )
