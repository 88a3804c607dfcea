"""The door of a classic group: from what its members say in JoinGroup to a problem, and from the answer to SyncGroup.

With it an assignor's plug-in for any client is a few lines: `joined` makes the bytes that a member joins with, `members`
what the leader plans for, `assigned` the bytes that it answers with.
Law: claims come from where Kafka's assignor of the same name looks for them. `sticky` reads userData alone, since its
members give up everything before they join; the others read the subscription's own partitions, and cooperative-sticky finds
their generation in userData where the subscription is too old to have one. Claims in userData that cannot be read are none,
as with Kafka: they cost a move, and no group stands still for them.
Source: KIP-429, KIP-792, and Kafka's StickyAssignor and CooperativeStickyAssignor.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors.problem.inputs import (
    Member,
    ProblemError,
)
from assignors.protocol.kafka import consumer_protocol
from assignors.protocol.kafka import sticky_user_data as user_data
from assignors.protocol.kafka.consumer_protocol import (
    UNKNOWN_GENERATION,
    ConsumerSubscription,
)
from assignors.protocol.kafka.sticky_user_data import (
    DEFAULT_PRIORITY,
    StickyUserData,
)
from assignors.protocol.partition_ranges import WireError
from assignors.strategies.vote import elect_strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.problem.assignment import Assignment
    from assignors.problem.group import Group
    from assignors.protocol.partition_ranges import Partitions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """A member as it asks to join. A leader hears of the strategy that was chosen alone, and offers has one entry then."""

    id: str
    instance_id: str | None = None
    offers: Mapping[str, bytes]  # by strategy, the most preferred first: its subscription


def members(joiners: Iterable[Joiner], strategy: str | None = None) -> tuple[str, list[Member]]:
    """The strategy that the members agree on, or the one given, and the members as it sees them.

    Raises:
        InconsistentGroupProtocolError: no strategy is offered by all.
        ProblemError: a member does not offer the strategy, or its subscription cannot be read; the message names it.
    """
    everybody = list(joiners)
    name = (
        strategy
        if strategy is not None
        else elect_strategy([tuple(joiner.offers) for joiner in everybody])
    )
    return name, [_member(name, joiner) for joiner in everybody]


def joined(
    strategy: str,
    topics: Iterable[str],
    *,
    owned: Partitions | None = None,
    generation: int = UNKNOWN_GENERATION,
    rack: str | None = None,
    priority: int = DEFAULT_PRIORITY,
) -> ConsumerSubscription:
    """What a member says to join under a strategy; `owned` is what its last assignment gave it, None if it never had one."""
    said: bytes | None = None
    if strategy == "sticky" and owned is not None:
        said = StickyUserData(held=owned, generation=generation).encode()
    elif strategy == "cooperative-sticky":
        said = user_data.encode_generation(generation)
    elif strategy == "failover":
        said = user_data.encode_priority(priority)
    eager = strategy == "sticky"
    return ConsumerSubscription(
        topics=tuple(topics),
        user_data=said,
        owned={} if eager else owned or {},
        generation=generation,
        rack=rack,
    )


def assigned(group: Group, answer: Assignment) -> dict[str, bytes]:
    """By member, the bytes of what it gets: what is withheld comes with the next round."""
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
        # There are clients that say v1 and leave its field out (kafka-go); Sarama and franz-go read them as v0 too.
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
    said = StickyUserData.decode(subscription.user_data)
    return said.held, said.generation


def _own(subscription: ConsumerSubscription, generation: int) -> tuple[Partitions | None, int]:
    had_one = bool(subscription.owned) or generation >= 0
    return (subscription.owned if had_one else None), generation
