"""A group's state as one packed value, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from assignors.protocol import partition_ranges as ranges
from assignors.protocol.records import RackChange, RacksEvidence
from streaming.group.state import (
    ConsumerMember,
    GroupState,
    Layout,
    Owner,
    Ownership,
    Racks,
    Standing,
    TopicLag,
)
from streaming.messages import packing
from streaming.messages.packing import PackingError
from streaming.rules.skew import SkewRun

if TYPE_CHECKING:
    import numpy.typing as npt

VERSION = 5


def pack(state: GroupState) -> bytes:
    """The state store's value."""
    topics = list(state.lags)
    palette: dict[tuple[str, ...], int] = {}
    meta: dict[str, Any] = {
        "state": VERSION,
        "topics": [_lag_value(topic, state.lags[topic]) for topic in topics],
        "committed": sorted(state.committed),
        "by_plan": sorted(state.by_plan),
        "ids": dict(state.ids),
        "layouts": {
            name: [
                [layout.at, _numbered(layout.racks, palette), layout.planned] for layout in known
            ]
            for name, known in state.layouts.items()
        },
        "palette": list(palette),
        "racks_sources": {topic: dict(read) for topic, read in state.racks_sources.items()},
        "managed": [[*key, _owner_value(owner)] for key, owner in state.managed.items()],
        "classic": [_owner_value(owner) for owner in state.classic],
        "consumer": [_consumer_value(name, member) for name, member in state.consumer.items()],
        "heard": state.heard,
        "seen": dict(state.seen),
        "planned_at": state.planned_at,
        "moment": state.moment,
        "run": [state.run.since, state.run.evaluated_at, state.run.active],
        "racks": None
        if state.racks is None
        else [state.racks.since, _changes_value(state.racks.evidence)],
    }
    lags = {f"lag{place}": state.lags[topic].lag for place, topic in enumerate(topics)}
    owners = {
        f"owner{place}": state.lags[topic].ownership.owner.astype(np.int32)
        for place, topic in enumerate(topics)
    }
    return packing.pack(meta, {**lags, **owners})


def unpack(value: bytes) -> GroupState:
    """From the state store's value."""
    meta, arrays = packing.unpack(value)
    if meta.get("state") != VERSION:
        raise PackingError(f"group state of version {meta.get('state')}, not {VERSION}")
    since, evaluated_at, active = meta["run"]
    palette = [tuple(racks) for racks in meta["palette"]]
    return GroupState(
        lags={
            said[0]: _lag(said, arrays[f"lag{place}"], arrays[f"owner{place}"])
            for place, said in enumerate(meta["topics"])
        },
        committed=frozenset(meta["committed"]),
        by_plan=frozenset(meta["by_plan"]),
        ids=meta["ids"],
        layouts={
            name: tuple(
                Layout(at=at, racks=tuple([palette[number] for number in racks]), planned=planned)
                for at, racks, planned in known
            )
            for name, known in meta["layouts"].items()
        },
        racks_sources=meta["racks_sources"],
        managed={
            (instance, incarnation): _owner(said) for instance, incarnation, said in meta["managed"]
        },
        classic=tuple(map(_owner, meta["classic"])),
        consumer=dict(map(_consumer, meta["consumer"])),
        heard=meta["heard"],
        seen=meta["seen"],
        planned_at=meta["planned_at"],
        moment=meta["moment"],
        run=SkewRun(since=since, evaluated_at=evaluated_at, active=active),
        racks=None
        if meta["racks"] is None
        else Standing(since=meta["racks"][0], evidence=_changes(meta["racks"][1])),
    )


def _numbered(racks: Racks, palette: dict[tuple[str, ...], int]) -> list[int]:
    """A layout's sets of racks, of which there are few, by their numbers."""
    return [palette.setdefault(one, len(palette)) for one in racks]


def _lag_value(topic: str, lag: TopicLag) -> list[object]:
    return [topic, lag.at, lag.seconds, lag.committed_at, dict(lag.source), lag.ownership.members]


def _lag(said: list[Any], lag: npt.NDArray[Any], owner: npt.NDArray[Any]) -> TopicLag:
    _, at, seconds, committed_at, source, members = said
    ownership = Ownership(
        members=tuple((name, rack) for name, rack in members), owner=owner.astype(np.int64)
    )
    return TopicLag(
        at=at,
        lag=lag,
        seconds=seconds,
        committed_at=committed_at,
        source=source,
        ownership=ownership,
    )


def _consumer_value(name: str, member: ConsumerMember) -> list[object]:
    owned = (
        None if member.owned is None else {key: ranges.format(p) for key, p in member.owned.items()}
    )
    return [name, member.introduced, member.instance_id, member.rack, owned]


def _consumer(said: list[Any]) -> tuple[str, ConsumerMember]:
    name, introduced, instance_id, rack, owned = said
    partitions = None if owned is None else {key: ranges.parse(text) for key, text in owned.items()}
    return name, ConsumerMember(
        introduced=introduced, instance_id=instance_id, rack=rack, owned=partitions
    )


def _owner_value(owner: Owner) -> list[object]:
    return [
        owner.name,
        owner.rack,
        owner.capacity,
        {name: ranges.format(p) for name, p in owner.assigned.items()},
    ]


def _owner(said: list[Any]) -> Owner:
    name, rack, capacity, assigned = said
    return Owner(
        name=name,
        rack=rack,
        capacity=capacity,
        assigned={topic: ranges.parse(text) for topic, text in assigned.items()},
    )


def _changes_value(evidence: RacksEvidence) -> list[list[object]]:
    return [
        [topic, partition, change.before, change.after]
        for topic, changed in evidence.topics.items()
        for partition, change in changed.items()
    ]


def _changes(said: list[list[Any]]) -> RacksEvidence:
    topics: dict[str, dict[int, RackChange]] = {}
    for topic, partition, before, after in said:
        topics.setdefault(topic, {})[partition] = RackChange(
            before=tuple(before), after=tuple(after)
        )
    return RacksEvidence(topics=topics)
