"""Who is in a group and who owns what: what the records of its coordinator, or of its planner, make of its state. Pure.

Where levelwind manages a group its own assignments say it, else the coordinator's: the classic group's metadata, or a
KIP-848 group's members. A group speaks one of these protocols at a time and may change it. Then the coordinator deletes
what it said under the other, and what was said last holds even where compaction has taken those tombstones away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assignors.protocol.kafka.types import Reader
from streaming.decoding import classic_group, consumer_group
from streaming.decoding.consumer_group import (
    CURRENT,
    EPOCH,
    MEMBER,
    Current,
    MemberMetadata,
)
from streaming.decoding.offsets_topic import GROUP_METADATA
from streaming.group.state import (
    ConsumerMember,
    GroupState,
    Owner,
    Ownership,
)

if TYPE_CHECKING:
    from assignors.protocol.records import MemberAssignment
    from streaming.messages.rows import Raw


def owners_of(state: GroupState) -> tuple[Owner, ...]:
    """The members of a managed group, else those that the coordinator knows."""
    if state.managed:
        return tuple(owner for _, owner in sorted(state.managed.items()))
    return state.classic or _resolved(state)


def _resolved(state: GroupState) -> tuple[Owner, ...]:
    """The members of a KIP-848 group, with those of their partitions whose topics' names are known."""
    if not state.consumer:
        return ()
    names = {topic_id: topic for topic, topic_id in state.ids.items()}
    return tuple(
        Owner(
            name=member.instance_id or member_id,
            rack=member.rack,
            capacity=1.0,
            assigned={
                names[topic_id]: owned
                for topic_id, owned in (member.owned or {}).items()
                if topic_id in names
            },
        )
        for member_id, member in sorted(state.consumer.items())
    )


def ownership_of(owners: tuple[Owner, ...], topic: str, partitions: int) -> Ownership:
    """Who owns each partition of a topic; one that two claim, while it is handed over, is the first's."""
    members: list[tuple[str, str | None]] = []
    column = np.full(partitions, -1, np.int64)
    for owner in owners:
        if not (owned := owner.assigned.get(topic)):
            continue
        places = np.array(owned, np.int64)
        places = places[places < partitions]
        column[places[column[places] < 0]] = len(members)
        members.append((owner.name, owner.rack))
    return Ownership(members=tuple(members), owner=column)


def assigned(state: GroupState, record: MemberAssignment) -> GroupState:
    """Our own planner says what an incarnation owns."""
    key = (record.instance, record.incarnation)
    others = {known: owner for known, owner in state.managed.items() if known != key}
    if record.state == "evicted":
        return replace(state, managed=others)
    owner = Owner(
        name=record.instance,
        rack=record.rack,
        capacity=record.capacity,
        assigned=dict(record.assigned),
    )
    return replace(state, managed={**others, key: owner})


def left(state: GroupState, instance: str, incarnation: str) -> GroupState:
    """Our own planner is done with an incarnation."""
    gone = (instance, incarnation)
    return replace(
        state, managed={key: owner for key, owner in state.managed.items() if key != gone}
    )


def said(state: GroupState, raw: Raw) -> GroupState:
    """The group's coordinator says something; the intake has let nothing else through than what can be read."""
    key = raw.key or b""
    if Reader(key).int16() == GROUP_METADATA:
        return _classic(state, raw.value)
    who = consumer_group.read_key(key)
    if raw.value is None:
        return _gone(state, who)
    value = consumer_group.read(who.version, raw.value)
    members = dict(state.consumer)
    if isinstance(value, MemberMetadata):
        known = members.get(who.name or "", ConsumerMember())
        members[who.name or ""] = replace(
            known, introduced=True, instance_id=value.instance_id, rack=value.rack
        )
    elif isinstance(value, Current):
        known = members.get(who.name or "", ConsumerMember())
        members[who.name or ""] = replace(known, owned=value.owned)
    return replace(state, consumer=members, classic=())


def _gone(state: GroupState, who: consumer_group.Key) -> GroupState:
    if who.version == EPOCH:  # the group itself
        return replace(state, consumer={})
    known = state.consumer.get(who.name or "")
    if known is None:
        return state
    if who.version == MEMBER:
        known = replace(known, introduced=False, instance_id=None, rack=None)
    elif who.version == CURRENT:
        known = replace(known, owned=None)
    members = {name: member for name, member in state.consumer.items() if name != who.name}
    if known.introduced or known.owned is not None:
        members[who.name or ""] = known
    return replace(state, consumer=members)


def _classic(state: GroupState, value: bytes | None) -> GroupState:
    if value is None:
        return replace(state, classic=())
    members = classic_group.read(value).members
    owners = tuple(
        Owner(
            name=member.instance_id or member.member_id,
            rack=member.rack,
            capacity=1.0,
            assigned=dict(member.assigned),
        )
        for member in sorted(members, key=lambda member: member.member_id)
    )
    return replace(state, classic=owners, consumer={})
