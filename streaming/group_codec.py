"""A group's state as one packed value, and back."""

from __future__ import annotations

from typing import Any

from assignors.protocol import ranges
from assignors.protocol.records import RackChange, RacksEvidence
from streaming import packing
from streaming.group_state import GroupState, Layout, Owner, Standing, TopicLag
from streaming.packing import PackingError
from streaming.skew import SkewRun

VERSION = 1


def pack(state: GroupState) -> bytes:
    """The state store's value."""
    topics = list(state.lags)
    meta: dict[str, Any] = {
        "state": VERSION,
        "topics": [[topic, state.lags[topic].at, dict(state.lags[topic].source)] for topic in topics],
        "ids": dict(state.ids),
        "layouts": {
            name: [[layout.at, layout.racks] for layout in known] for name, known in state.layouts.items()
        },
        "racks_source": dict(state.racks_source),
        "managed": [[*key, _owner_value(owner)] for key, owner in state.managed.items()],
        "classic": [_owner_value(owner) for owner in state.classic],
        "planned_at": state.planned_at,
        "moment": state.moment,
        "run": [state.run.since, state.run.judged, state.run.standing],
        "racks": None if state.racks is None else [state.racks.since, _changes_value(state.racks.evidence)],
    }
    return packing.pack(meta, {str(place): state.lags[topic].lag for place, topic in enumerate(topics)})


def unpack(value: bytes) -> GroupState:
    """From the state store's value."""
    meta, arrays = packing.unpack(value)
    if meta.get("state") != VERSION:
        raise PackingError(f"group state of version {meta.get('state')}, not {VERSION}")
    since, judged, standing = meta["run"]
    return GroupState(
        lags={
            topic: TopicLag(at=at, lag=arrays[str(place)], source=source)
            for place, (topic, at, source) in enumerate(meta["topics"])
        },
        ids=meta["ids"],
        layouts={
            name: tuple(Layout(at=at, racks=tuple(map(tuple, racks))) for at, racks in known)
            for name, known in meta["layouts"].items()
        },
        racks_source=meta["racks_source"],
        managed={(instance, incarnation): _owner(said) for instance, incarnation, said in meta["managed"]},
        classic=tuple(map(_owner, meta["classic"])),
        planned_at=meta["planned_at"],
        moment=meta["moment"],
        run=SkewRun(since=since, judged=judged, standing=standing),
        racks=None
        if meta["racks"] is None
        else Standing(since=meta["racks"][0], evidence=_changes(meta["racks"][1])),
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
        topics.setdefault(topic, {})[partition] = RackChange(before=tuple(before), after=tuple(after))
    return RacksEvidence(topics=topics)
