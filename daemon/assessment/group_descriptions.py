"""Groups as their coordinators describe them over the daemon's own connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from levelwind.assignors.protocol.kafka.consumer_protocol import ConsumerAssignment
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.assessment.observed_groups import (
    CLASSIC,
    CONSUMER_PROTOCOL,
    EMPTY,
    REBALANCING,
    STABLE,
    UNKNOWN_STATE,
    GroupDescription,
    GroupMember,
)
from levelwind.daemon.wire.describe_requests import (
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
)
from levelwind.daemon.wire.group_requests import GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.daemon.observer.coordinator_questions import Failures
    from levelwind.daemon.wire.broker_addresses import Address
    from levelwind.daemon.wire.describe_requests import (
        DescribedConsumerGroup,
        DescribedGroup,
        DescribedMember,
    )
    from levelwind.daemon.wire.shared_connections import SharedConnections

STATES = {
    "Stable": STABLE,
    "Empty": EMPTY,
    "PreparingRebalance": REBALANCING,
    "CompletingRebalance": REBALANCING,
}
CLASSIC_ONES = (GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION)
"""Answers to the question for a group of KIP-848 where it is none."""


async def describe(
    described: dict[str, GroupDescription],
    connections: SharedConnections,
    address: Address,
    groups: Sequence[str],
) -> Failures:
    """Ask one coordinator to describe its groups; return its refusals.

    Raises:
        ConnectionFailedError: it cannot be reached, or does not answer in time.
    """
    refusals: Failures = {}
    classic = list(groups)
    if DescribeConsumerGroupsRequest.KEY in (await connections.to(address)).versions:
        newer: Sequence[DescribedConsumerGroup] = await connections.ask(
            address, DescribeConsumerGroupsRequest(groups)
        )
        classic = [each.name for each in newer if each.error in CLASSIC_ONES]
        for each in newer:
            if not each.error:
                described[each.name] = GroupDescription(
                    type=CONSUMER_PROTOCOL,
                    state=STATES.get(each.state, UNKNOWN_STATE),
                    assignor=each.assignor,
                    coordinator=address,
                    members=_members(each.members),
                )
            elif each.error not in CLASSIC_ONES:
                refusals[each.name] = KafkaError(each.error)
    if classic:
        older: Sequence[DescribedGroup] = await connections.ask(
            address, DescribeGroupsRequest(classic)
        )
        for one in older:
            if one.error:
                refusals[one.name] = KafkaError(one.error)
            else:
                described[one.name] = GroupDescription(
                    type=CLASSIC,
                    state=STATES.get(one.state, UNKNOWN_STATE),
                    assignor=one.protocol,
                    coordinator=address,
                    members=_members(one.members),
                )
    return refusals


def _members(members: Iterable[DescribedMember]) -> tuple[GroupMember, ...]:
    return tuple(
        GroupMember(
            id=member.id,
            instance=member.instance_id or None,
            client=member.client_id,
            host=member.host.removeprefix("/"),
            owned=frozenset(
                (topic, number) for topic, numbers in _owned(member).items() for number in numbers
            ),
        )
        for member in members
    )


def _owned(member: DescribedMember) -> Mapping[str, Iterable[int]]:
    if member.assigned is not None:
        return dict(zip(member.assigned_topics, member.assigned.values(), strict=True))
    try:
        return ConsumerAssignment.decode(member.assignment).partitions
    except WireError:  # a group that is not stable has none
        return {}
