"""Conversion between a group's state and the packed value that the state store keeps.

The names in a value are short: they are most of what the state of a small group takes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.records import RackChange, RacksEvidence
from levelwind.streaming.group.state import (
    ConsumerMember,
    GroupState,
    Layout,
    LearnedSpeed,
    Owner,
    PartitionOwners,
    Racks,
    RacksTrigger,
    TopicLag,
)
from levelwind.streaming.messages import packing
from levelwind.streaming.messages.lag_json import Claim
from levelwind.streaming.messages.packing import PackingError
from levelwind.streaming.rules.skew import SkewRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

VERSION = 10
"""Counts up with every change of what `pack` writes; an older checkpoint is then set aside."""
_SPEED_FIELDS = tuple([field.name for field in fields(LearnedSpeed)])
"""In the order in which their values are packed: another one is a change of `VERSION`."""


def pack(state: GroupState) -> bytes:
    """Pack a state as the state store's value."""
    topics = list(state.lags)
    rack_sets: dict[tuple[str, ...], int] = {}
    subscriptions: dict[frozenset[str], int] = {}
    meta: dict[str, Any] = {
        "state": VERSION,
        "lags": [_pack_lag(topic, state.lags[topic]) for topic in topics],
        "committed": sorted(state.committed_topics),
        "planned": sorted(state.planned_topics),
        "ids": dict(state.topic_ids),
        "layouts": {
            topic: [
                [layout.at, _pack_racks(layout.racks, rack_sets), layout.from_plan]
                for layout in layouts
            ]
            for topic, layouts in state.layouts.items()
        },
        "rack_sets": list(rack_sets),
        "racks_sources": {topic: dict(source) for topic, source in state.racks_sources.items()},
        "managed": [
            [*key, _pack_owner(owner, subscriptions)]
            for key, owner in state.managed_members.items()
        ],
        "classic": [_pack_owner(owner, subscriptions) for owner in state.classic_members],
        "consumer": [
            _pack_consumer_member(member_id, member)
            for member_id, member in state.consumer_members.items()
        ],
        "shards": dict(state.shards),
        "metadata_at": state.plan_metadata_at,
        "record_at": state.last_record_at,
        "offsets": dict(state.newest_offsets),
        "sampled_at": state.sampled_at,
        "speeds": [_pack_speed(name, known) for name, known in sorted(state.speeds.items())],
        "speeds_at": state.speeds_at,
        "skew_run": [state.skew_run.since, state.skew_run.evaluated_at, state.skew_run.active],
        "racks": _pack_racks_trigger(state.racks_trigger),
    }
    if state.member_topics:
        meta["joined"] = sorted(state.member_topics)
    if state.regex_topics:
        meta["regexes"] = dict(state.regex_topics)
    if subscriptions:
        meta["subscriptions"] = [sorted(subscribed) for subscribed in subscriptions]
    lags = {f"lag{index}": state.lags[topic].lag for index, topic in enumerate(topics)}
    owners = {
        f"owner{index}": state.lags[topic].owners.owner.astype(np.int32)
        for index, topic in enumerate(topics)
    }
    rates = {
        f"rate{index}": state.lags[topic].rate.astype(np.int32)
        for index, topic in enumerate(topics)
    }
    return packing.pack(meta, {**lags, **rates, **owners})


def unpack(value: bytes) -> GroupState:
    """Unpack a state store's value.

    Raises:
        PackingError: the value is damaged, or another version wrote it.
    """
    meta, arrays = packing.unpack(value)
    if meta.get("state") != VERSION:
        raise PackingError(f"group state of version {meta.get('state')}, not {VERSION}")
    since, evaluated_at, active = meta["skew_run"]
    rack_sets = [tuple(racks) for racks in meta["rack_sets"]]
    subscriptions = [frozenset(subscribed) for subscribed in meta.get("subscriptions", ())]
    return GroupState(
        lags={
            packed[0]: _unpack_lag(
                packed, *(arrays[f"{name}{index}"] for name in ("lag", "rate", "owner"))
            )
            for index, packed in enumerate(meta["lags"])
        },
        committed_topics=frozenset(meta["committed"]),
        planned_topics=frozenset(meta["planned"]),
        member_topics=frozenset(meta.get("joined", ())),
        regex_topics={regex: tuple(topics) for regex, topics in meta.get("regexes", {}).items()},
        topic_ids=meta["ids"],
        layouts={
            topic: tuple(_unpack_layout(packed, rack_sets) for packed in layouts)
            for topic, layouts in meta["layouts"].items()
        },
        racks_sources=meta["racks_sources"],
        managed_members={
            (instance, incarnation): _unpack_owner(packed, subscriptions)
            for instance, incarnation, packed in meta["managed"]
        },
        classic_members=tuple(_unpack_owner(packed, subscriptions) for packed in meta["classic"]),
        consumer_members=dict(map(_unpack_consumer_member, meta["consumer"])),
        shards=meta["shards"],
        plan_metadata_at=meta["metadata_at"],
        last_record_at=meta["record_at"],
        newest_offsets=meta["offsets"],
        sampled_at=meta["sampled_at"],
        speeds=dict(map(_unpack_speed, meta["speeds"])),
        speeds_at=meta["speeds_at"],
        skew_run=SkewRun(since=since, evaluated_at=evaluated_at, active=active),
        racks_trigger=_unpack_racks_trigger(meta["racks"]),
    )


def _pack_racks(racks: Racks, rack_sets: dict[tuple[str, ...], int]) -> list[int]:
    """Indices into `rack_sets`, by partition: a topic has many partitions and few sets of racks."""
    return [rack_sets.setdefault(rack_set, len(rack_sets)) for rack_set in racks]


def _unpack_layout(packed: list[Any], rack_sets: list[tuple[str, ...]]) -> Layout:
    at, racks, from_plan = packed
    return Layout(at=at, racks=tuple([rack_sets[index] for index in racks]), from_plan=from_plan)


def _pack_lag(topic: str, lag: TopicLag) -> list[object]:
    """All of a topic's lag but its columns, which are packed as arrays."""
    measured = (lag.at, lag.seconds, lag.committed_at, dict(lag.source))
    return [topic, *measured, *lag.owners.named]


def _unpack_lag(
    packed: list[Any], lag: npt.NDArray[Any], rate: npt.NDArray[Any], owner: npt.NDArray[Any]
) -> TopicLag:
    _, at, seconds, committed_at, source, members, others, non_readers, claim = packed
    owners = PartitionOwners(
        members=tuple((name, rack) for name, rack in members),
        owner=owner.astype(np.int64),
        others=tuple((name, rack) for name, rack in others),
        non_readers=tuple(non_readers),
        claim=Claim(claim),
    )
    return TopicLag(
        at=at,
        lag=lag,
        rate=rate.astype(np.int64),
        seconds=seconds,
        committed_at=committed_at,
        source=source,
        owners=owners,
    )


def _pack_speed(name: str, known: LearnedSpeed) -> list[object]:
    return [name, *(getattr(known, field) for field in _SPEED_FIELDS)]


def _unpack_speed(packed: list[Any]) -> tuple[str, LearnedSpeed]:
    name, *values = packed
    known = dict(zip(_SPEED_FIELDS, values, strict=True))
    return name, LearnedSpeed(**known | {"windows": tuple(known["windows"])})


def _pack_consumer_member(member_id: str, member: ConsumerMember) -> list[object]:
    owned = None if member.owned is None else _pack_partitions(member.owned)
    described = (member.has_metadata, member.instance_id, member.rack, member.topics, member.regex)
    return [member_id, *described, owned]


def _unpack_consumer_member(packed: list[Any]) -> tuple[str, ConsumerMember]:
    member_id, has_metadata, instance_id, rack, topics, regex, owned = packed
    return member_id, ConsumerMember(
        has_metadata=has_metadata,
        instance_id=instance_id,
        rack=rack,
        topics=tuple(topics),
        regex=regex,
        owned=None if owned is None else _unpack_partitions(owned),
    )


def _pack_owner(owner: Owner, subscriptions: dict[frozenset[str], int]) -> list[object]:
    """An owner with an index of `subscriptions`: the members of a group mostly have the same."""
    topics = owner.topics
    index = None if topics is None else subscriptions.setdefault(topics, len(subscriptions))
    return [owner.name, owner.rack, owner.capacity, _pack_partitions(owner.assigned), index]


def _unpack_owner(packed: list[Any], subscriptions: list[frozenset[str]]) -> Owner:
    name, rack, capacity, assigned, index = packed
    return Owner(
        name=name,
        rack=rack,
        capacity=capacity,
        assigned=_unpack_partitions(assigned),
        topics=None if index is None else subscriptions[index],
    )


def _pack_partitions(by_topic: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Partitions as text of ranges, by topic or topic id."""
    return {topic: ranges.format(partitions) for topic, partitions in by_topic.items()}


def _unpack_partitions(packed: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    return {topic: ranges.parse(text) for topic, text in packed.items()}


def _pack_racks_trigger(trigger: RacksTrigger | None) -> list[object] | None:
    if trigger is None:
        return None
    changed = [
        [topic, partition, change.before, change.after]
        for topic, changes in trigger.evidence.topics.items()
        for partition, change in changes.items()
    ]
    return [trigger.since, changed]


def _unpack_racks_trigger(packed: list[Any] | None) -> RacksTrigger | None:
    if packed is None:
        return None
    since, changed = packed
    topics: dict[str, dict[int, RackChange]] = {}
    for topic, partition, before, after in changed:
        change = RackChange(before=tuple(before), after=tuple(after))
        topics.setdefault(topic, {})[partition] = change
    return RacksTrigger(since=since, evidence=RacksEvidence(topics=topics))
