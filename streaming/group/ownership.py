"""Members of a group, their partitions and subscriptions, by its coordinator or planner.

For a group that levelwind manages, its own assignments count; for any other group, the records of
the coordinator: the metadata of a classic group, or the members of a KIP-848 group. A group speaks
one of these protocols at a time and may change it. The coordinator then deletes the records of the
former protocol; since compaction may have removed those tombstones, the protocol of the newest
record decides. All functions are pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.protocol.kafka.carried_plan import MARK
from levelwind.assignors.protocol.kafka.types import Reader
from levelwind.streaming.decoding import classic_group, consumer_group
from levelwind.streaming.decoding.consumer_group import (
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    CurrentAssignment,
    MemberMetadata,
    ResolvedRegex,
)
from levelwind.streaming.decoding.offsets_topic import GROUP_METADATA
from levelwind.streaming.group.state import ConsumerMember, GroupState, Owner, PartitionOwners
from levelwind.streaming.messages.lag_json import Claim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.records import MemberAssignment
    from levelwind.streaming.messages.rows import Raw


def owners_of(state: GroupState) -> tuple[Owner, ...]:
    """The members of a managed group; of any other group, those that its coordinator knows."""
    if state.managed_members:
        return tuple(owner for _, owner in sorted(state.managed_members.items()))
    return state.classic_members or _consumer_owners(state)


def _consumer_owners(state: GroupState) -> tuple[Owner, ...]:
    """Members of a KIP-848 group, with their partitions of those topics whose names are known.

    A carrier does no work: as an owner it would count as spare capacity.
    """
    if not state.consumer_members:
        return ()
    names = {topic_id: topic for topic, topic_id in state.topic_ids.items()}
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
            topics=_subscription(member, state.regex_topics),
        )
        for member_id, member in sorted(state.consumer_members.items())
        if member.rack != MARK
    )


def _subscription(
    member: ConsumerMember, regex_topics: Mapping[str, tuple[str, ...]]
) -> frozenset[str] | None:
    """The topics that a member of a KIP-848 group subscribes to.

    None: its metadata was not read, or its coordinator has not resolved its expression yet.
    """
    if not member.has_metadata:
        return None
    if member.regex is None:
        return frozenset(member.topics)
    matched = regex_topics.get(member.regex)
    return None if matched is None else frozenset((*member.topics, *matched))


def claim_of(owners: tuple[Owner, ...], topic: str) -> Claim:
    """What the members of a group claim of a topic beside what they own.

    `COMMITTED` without members, and where the subscription of one of them is not known: it may be
    to any topic.
    """
    if not owners or any(owner.topics is None for owner in owners):
        return Claim.COMMITTED
    return Claim.ALL if any(topic in (owner.topics or ()) for owner in owners) else Claim.NONE


def partition_owners(owners: tuple[Owner, ...], topic: str, partitions: int) -> PartitionOwners:
    """The owner of each partition of a topic, and how the members stand to the topic.

    While a partition is handed over, two members may claim it; the first of `owners` counts.
    """
    members: list[tuple[str, str | None]] = []
    column = [-1] * partitions
    for owner in owners:
        if not (assigned := owner.assigned.get(topic)):
            continue
        for partition in assigned:
            if partition < partitions and column[partition] < 0:
                column[partition] = len(members)
        members.append((owner.name, owner.rack))
    claim = claim_of(owners, topic)
    known = owners if claim != Claim.COMMITTED else ()
    return PartitionOwners(
        members=tuple(members),
        owner=np.array(column, np.int64),
        others=tuple([(each.name, each.rack) for each in known if not any(each.assigned.values())]),
        non_readers=tuple([each.name for each in known if topic not in (each.topics or ())]),
        claim=claim,
    )


def with_assignment(state: GroupState, record: MemberAssignment) -> GroupState:
    """Apply an assignment that levelwind's planner wrote for an incarnation of a member."""
    if record.state == "evicted":
        return without_incarnation(state, record.instance, record.incarnation)
    owner = Owner(
        name=record.instance,
        rack=record.rack,
        capacity=record.capacity,
        assigned=dict(record.assigned),
    )
    members = {**state.managed_members, (record.instance, record.incarnation): owner}
    return replace(state, managed_members=members)


def without_incarnation(state: GroupState, instance: str, incarnation: str) -> GroupState:
    """Drop an incarnation that levelwind's planner has finished with."""
    key = (instance, incarnation)
    others = {other: member for other, member in state.managed_members.items() if other != key}
    return replace(state, managed_members=others)


def with_coordinator_record(state: GroupState, raw: Raw) -> GroupState:
    """Apply a record of the group's coordinator.

    Args:
        state: the group's state.
        raw: a record of `__consumer_offsets` about the group's members. It can be decoded: ingest
            passes on no other.
    """
    after = _with_members(state, raw)
    return replace(after, member_topics=_member_topics(after))


def _member_topics(state: GroupState) -> frozenset[str]:
    """The topics that members subscribe to, or have partitions of.

    What a KIP-848 member owns is known by the ids of topics.
    """
    topics = {
        topic
        for owner in state.classic_members
        for topic, partitions in owner.assigned.items()
        if partitions
    }
    topics.update(*(owner.topics or () for owner in state.classic_members))
    topics.update(*(member.topics for member in state.consumer_members.values()))
    topics.update(*state.regex_topics.values())
    return frozenset(topics)


def _with_members(state: GroupState, raw: Raw) -> GroupState:
    key = raw.key or b""
    if Reader(key).int16() == GROUP_METADATA:
        return _with_classic_metadata(state, raw.value)
    subject = consumer_group.decode_key(key)
    if raw.value is None:
        return _with_tombstone(state, subject)
    value = consumer_group.decode_value(subject.version, raw.value)
    member_id = subject.name or ""
    member = state.consumer_members.get(member_id, ConsumerMember())
    members = dict(state.consumer_members)
    if isinstance(value, MemberMetadata):
        carries = (value.rack or "").startswith(MARK)
        members[member_id] = replace(
            member,
            has_metadata=True,
            instance_id=value.instance_id,
            rack=MARK if carries else value.rack,  # else the plan would be kept with the state
            topics=() if carries else value.topics,
            regex=value.regex,
        )
    elif isinstance(value, ResolvedRegex):
        return replace(state, regex_topics={**state.regex_topics, member_id: value.topics})
    elif isinstance(value, CurrentAssignment):
        members[member_id] = replace(member, owned=value.owned)
    return replace(state, consumer_members=members, classic_members=())


def _with_tombstone(state: GroupState, subject: consumer_group.GroupRecordKey) -> GroupState:
    """Drop what a record of a KIP-848 group held; a member without any record left is dropped."""
    if subject.version == EPOCH:  # the group itself was deleted
        return replace(state, consumer_members={}, regex_topics={})
    if subject.version == REGEX:
        others = {
            name: topics for name, topics in state.regex_topics.items() if name != subject.name
        }
        return replace(state, regex_topics=others)
    member_id = subject.name or ""
    member = state.consumer_members.get(member_id)
    if member is None:
        return state
    if subject.version == MEMBER:
        member = ConsumerMember(owned=member.owned)
    elif subject.version == CURRENT:
        member = replace(member, owned=None)
    members = {
        other_id: other
        for other_id, other in state.consumer_members.items()
        if other_id != member_id
    }
    if member.has_metadata or member.owned is not None:
        members[member_id] = member
    return replace(state, consumer_members=members)


def _with_classic_metadata(state: GroupState, value: bytes | None) -> GroupState:
    """Apply the metadata record of a classic group, which holds all of its members.

    A member that neither reads nor owns anything, as the leader proxy, does no work: as an owner it
    would count as spare capacity.
    """
    if value is None:
        return replace(state, classic_members=())
    members = classic_group.decode(value).members
    owners = tuple(
        Owner(
            name=member.instance_id or member.member_id,
            rack=member.rack,
            capacity=1.0,
            assigned=dict(member.assigned),
            topics=None if member.topics is None else frozenset(member.topics),
        )
        for member in sorted(members, key=lambda member: member.member_id)
        if member.reads or member.assigned
    )
    return replace(state, classic_members=owners, consumer_members={}, regex_topics={})
