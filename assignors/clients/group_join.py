"""JoinGroup and SyncGroup of a classic group, to and from a planning problem.

With this module an assignor plug-in for any Kafka client takes a few lines: `join_subscription`
makes the bytes that a member joins with, `read_members` the members that the leader plans for, and
`sync_assignments` the bytes that the leader answers with.

Guarantees: owned partitions are read where Kafka's assignor of the same name reads them. `sticky`
reads only userData, since its members give up everything before they join. The others read the
subscription's own partitions, and cooperative-sticky takes their generation from userData where the
subscription is too old to carry one. Unreadable userData counts as owning nothing, as with Kafka:
that costs a move, but no rebalance fails over it.
Source: KIP-429, KIP-792, and Kafka's StickyAssignor and CooperativeStickyAssignor.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.assignors.problem.inputs import Member, ProblemError
from levelwind.assignors.protocol.kafka import consumer_protocol
from levelwind.assignors.protocol.kafka import sticky_user_data as user_data
from levelwind.assignors.protocol.kafka.consumer_protocol import (
    UNKNOWN_GENERATION,
    ConsumerSubscription,
)
from levelwind.assignors.protocol.kafka.sticky_user_data import DEFAULT_PRIORITY, StickyUserData
from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.assignors.strategies.vote import elect_strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.problem.assignment import Assignment
    from levelwind.assignors.problem.group import Group
    from levelwind.assignors.protocol.partition_ranges import Partitions

_log = logging.getLogger("levelwind.clients.classic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """A member as it asks to join."""

    id: str
    instance_id: str | None = None
    offers: Mapping[str, bytes]
    """Subscription bytes by strategy, the most preferred first.

    The group's leader gets only those of the chosen strategy: one entry.
    """


def read_members(
    joiners: Iterable[Joiner], strategy: str | None = None
) -> tuple[str, list[Member]]:
    """The strategy that all members offer (or the one given), and the members to plan for.

    Raises:
        InconsistentGroupProtocolError: No strategy is offered by all members.
        ProblemError: A member does not offer the strategy, or its subscription cannot be read; the
            message names the member.
    """
    every_joiner = list(joiners)
    name = (
        strategy
        if strategy is not None
        else elect_strategy([tuple(joiner.offers) for joiner in every_joiner])
    )
    return name, [_member(name, joiner) for joiner in every_joiner]


def join_subscription(
    strategy: str,
    topics: Iterable[str],
    *,
    owned: Partitions | None = None,
    generation: int = UNKNOWN_GENERATION,
    rack: str | None = None,
    priority: int = DEFAULT_PRIORITY,
) -> ConsumerSubscription:
    """The subscription that a member joins with under a strategy.

    Args:
        strategy: Decides where owned partitions, generation and priority are written.
        topics: Topics that the member subscribes to.
        owned: Partitions of the member's last assignment; None if it never had one.
        generation: Generation of that assignment; -1 if unknown.
        rack: Rack of the member.
        priority: Rank under `failover`; the highest is preferred.
    """
    user_bytes: bytes | None = None
    if strategy == "sticky" and owned is not None:
        user_bytes = StickyUserData(held=owned, generation=generation).encode()
    elif strategy == "cooperative-sticky":
        user_bytes = user_data.encode_generation(generation)
    elif strategy == "failover":
        user_bytes = user_data.encode_priority(priority)
    eager = strategy == "sticky"
    return ConsumerSubscription(
        topics=tuple(topics),
        user_data=user_bytes,
        owned={} if eager else owned or {},
        generation=generation,
        rack=rack,
    )


def sync_assignments(group: Group, answer: Assignment) -> dict[str, bytes]:
    """By member, the bytes of its assignment for SyncGroup.

    Partitions that the strategy withholds for now follow in the next rebalance.
    """
    return {
        member: consumer_protocol.ConsumerAssignment(
            partitions={topic: tuple(numbers) for topic, numbers in partitions.items()}
        ).encode()
        for member, partitions in answer.to_names(group).items()
    }


def _member(strategy: str, joiner: Joiner) -> Member:
    raw = joiner.offers.get(strategy)
    if raw is None:
        offered = ", ".join(joiner.offers) or "nothing"
        raise ProblemError(f"member {joiner.id!r}: does not offer {strategy!r} but {offered}")
    try:
        subscription = _subscription(raw)
        owned, generation = _claims(strategy, subscription, joiner.id)
        return Member(
            id=joiner.id,
            instance_id=joiner.instance_id,
            topics=subscription.topics,
            rack=subscription.rack,
            owned=owned,
            generation=generation,
            priority=user_data.decode_priority(subscription.user_data)
            if strategy == "failover"
            else DEFAULT_PRIORITY,
        )
    except WireError as error:
        raise ProblemError(
            f"member {joiner.id!r}: its subscription cannot be read: {error}"
        ) from error


def _subscription(raw: bytes) -> ConsumerSubscription:
    try:
        return ConsumerSubscription.decode(raw)
    except WireError:
        if raw[:2] != b"\0\1":
            raise
        # Some clients (kafka-go) write version 1 without its field; Sarama and franz-go, too, read
        # such bytes as version 0.
        return ConsumerSubscription.decode(b"\0\0" + raw[2:])


def _claims(
    strategy: str, subscription: ConsumerSubscription, member: str
) -> tuple[Partitions | None, int]:
    try:
        if strategy == "sticky":
            return _in_user_data(subscription)
        if strategy == "cooperative-sticky" and subscription.generation < 0:
            return _own(subscription, user_data.decode_generation(subscription.user_data))
    except WireError as error:
        _log.warning("userData of member %s cannot be read and is passed over: %s", member, error)
        if strategy == "sticky":
            return None, UNKNOWN_GENERATION
    return _own(subscription, subscription.generation)


def _in_user_data(subscription: ConsumerSubscription) -> tuple[Partitions | None, int]:
    if not subscription.user_data:
        return None, UNKNOWN_GENERATION
    sticky = StickyUserData.decode(subscription.user_data)
    return sticky.held, sticky.generation


def _own(subscription: ConsumerSubscription, generation: int) -> tuple[Partitions | None, int]:
    had_assignment = bool(subscription.owned) or generation >= 0
    return (subscription.owned if had_assignment else None), generation
