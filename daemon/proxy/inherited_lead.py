"""The lead as the daemon before left it: taken up without a round of the group. Pure.

A static leader that comes back to a stable group is shown no members. The coordinator describes
them, though, each with its subscription and its assignment: where the assignment is the one that
the proxy would dictate, nobody has to join again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelwind.assignors.clients.group_join import Joiner
from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerAssignment
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.proxy.dictation import LastDictation, Refusal, dictate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.clients.classic.published_plan import PublishedPlan
    from levelwind.assignors.protocol.partition_ranges import Partitions
    from levelwind.assignors.protocol.records import TopicRecord
    from levelwind.daemon.proxy.dictation import Dictation
    from levelwind.daemon.wire.describe_requests import DescribedGroup, DescribedMember


def inherited(
    described: DescribedGroup,
    proxy: str,
    layouts: Mapping[str, TopicRecord],
    plan: PublishedPlan | None,
) -> Dictation | None:
    """Return the dictation that is in force in a group; None if the proxy would dictate another.

    Args:
        described: the group, as its coordinator describes it.
        proxy: member id of the proxy, which leads the group.
        layouts: the layouts of topics that the daemon knows, by name.
        plan: the newest plan; None without any.
    """
    if described.state != "Stable":
        return None
    others = [member for member in described.members if member.id != proxy]
    try:
        held = {member.instance_id or member.id: _assigned(member) for member in others}
    except WireError:
        return None
    joiners = [
        Joiner(
            id=member.id,
            instance_id=member.instance_id,
            offers={described.protocol: member.subscription},
        )
        for member in others
    ]
    last = LastDictation(held, None)
    answer = dictate(described.protocol, joiners, proxy, layouts, plan, last)
    if isinstance(answer, Refusal) or ranges.owners(answer.shares) != ranges.owners(held):
        return None
    return answer


def _assigned(member: DescribedMember) -> Partitions:
    if not member.assignment:
        return {}
    return ConsumerAssignment.decode(member.assignment).partitions
