"""Members of a group that the leader proxy leads, as its last rebalance shows them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition


class ProxiedMember(NamedTuple):
    """Member of a generation that the leader proxy leads."""

    topics: frozenset[str]
    """Topics that it subscribes to."""
    rack: str | None
    owned: frozenset[TopicPartition]
    """Partitions that the proxy gave it."""


def owners_among(members: Mapping[str, ProxiedMember]) -> dict[TopicPartition, str]:
    """The member that owns each partition, of members by name."""
    return {partition: name for name, member in members.items() for partition in member.owned}
