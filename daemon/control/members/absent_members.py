"""Members that are gone and may come back before anybody else could have their partitions. Pure.

Law: an eviction frees nothing before its wait is over, so a plan made until then could grant
nothing of what the evicted member held. As long as that is all that has changed since the plan in
force, it stays, and gives a new life of the same instance what the former one had: a member that is
back in time moves nothing. When the wait is over, or the evicted life gives its partitions up, a
plan is due as ever.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.handover.ledger import Ledger
    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.daemon.control.members.live_member import Profile


def awaited(
    planned: Mapping[str, Profile],
    members: Mapping[str, Profile],
    target: Mapping[str, frozenset[TopicPartition]],
    ledger: Ledger,
) -> bool:
    """Whether members are gone since the plan in force that may come back, and no others changed.

    Each of them is evicted, and its evicted lives may be using all that the plan gives to it.

    Args:
        planned: the members of the plan in force, by instance.
        members: the live members, by instance.
        target: the partitions that the plan gives to each instance.
        ledger: the ledger of the group.
    """
    gone = planned.keys() - members.keys()
    if not gone or {**planned, **members} != planned:
        return False
    used: dict[str, set[TopicPartition]] = {instance: set() for instance in gone}
    for incarnation, holding in ledger.holdings.items():
        if holding.evicted and incarnation.instance in gone:
            used[incarnation.instance].update(chain(holding.granted, holding.revoking))
    shares = {instance: target.get(instance, frozenset()) for instance in gone}
    return all(share and share <= used[instance] for instance, share in shares.items())
