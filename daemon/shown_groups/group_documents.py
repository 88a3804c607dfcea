"""Documents of the API about one group: its line of the table, and everything about it.

Partitions are many: what is known of each is a list by partition for each topic, and members and
sets of racks are named once and referred to by their index.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.declared.declaration import as_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import GroupRecord, LagRecord, TriggerRecord
    from levelwind.daemon.control.gain.cross_rack import CrossRackShares
    from levelwind.daemon.control.snapshot import GroupLag
    from levelwind.daemon.shown_groups.group_view import GroupView

NOBODY = -1
"""Index of the owner of a partition that nobody owns, and of the racks of one without any."""


def group_summary(view: GroupView) -> dict[str, object]:
    """Return a group's line of the table of groups. Cost: the group's partitions."""
    return _summary(view, view.current_lags(), view.measured(), view.cross_rack())


def _summary(
    view: GroupView,
    lags: Mapping[str, LagRecord],
    measured: GroupLag,
    shares: CrossRackShares,
) -> dict[str, object]:
    plan, drain = view.plan, measured.drain
    waits = [wait for record in lags.values() if (wait := record.longest_wait) is not None]
    return {
        "group": view.name,
        "mode": plan.mode if plan else "watched",
        "strategy": plan.strategy if plan else None,
        "members": len(measured.members),
        "topics": len(lags),
        "partitions": sum(len(record.lag) for record in lags.values()),
        "unclaimed": sum(len(record.unclaimed_partitions) for record in lags.values()),
        "lag": measured.total,
        "unknown": measured.unknown,
        "lag_at": measured.oldest_at,
        "longest_wait_seconds": max(waits, default=None),
        "drain_seconds": finite(measured.drain_seconds),
        "best_drain_seconds": finite(drain.best) if drain and drain.mean else None,
        "skew": finite(measured.skew),
        "cross_rack": finite(shares.nominal if shares.effective is None else shares.effective),
        "moving": _moving(view),
        "plan_id": plan.plan_id if plan else None,
        "planned_at": plan.computed_at if plan else None,
        "triggers": sorted(view.triggers),
        "unwritten": view.unwritten_names,
    }


def group_document(view: GroupView) -> dict[str, object]:
    """Return everything about a group. Cost: the group's partitions."""
    lags, measured, shares = view.current_lags(), view.measured(), view.cross_rack()
    owners, racks, planned = view.owners(), view.racks(), view.planned()
    members = _members(view, measured, owners)
    index = {str(member["instance"]): number for number, member in enumerate(members)}
    for instance in sorted({*owners.values(), *(planned or {}).values()} - index.keys()):
        index[instance] = len(members)
        members.append(_unknown_member(instance, racks.get(instance)))
    member_racks = [member["rack"] for member in members]
    sets: dict[tuple[str, ...], int] = {}
    moving = _moving_partitions(view)
    return {
        **_summary(view, lags, measured, shares),
        "load": None if measured.drain is None else json_safe(measured.drain.as_json()),
        "cross_rack_shares": shares._asdict(),
        "leader_only_brokers": view.leader_only_brokers,
        "proxy": None if view.proxy is None else view.proxy.standing,
        "plan": None if view.plan is None else plan_document(view.plan),
        "evidence": {kind: _evidence(record) for kind, record in sorted(view.triggers.items())},
        "member": members,
        "topic": [
            _topic_document(record, index, owners, planned, member_racks, sets, moving)
            for _, record in sorted(lags.items())
        ],
        "rack_sets": [list(racks) for racks in sets],
    }


def plan_document(plan: GroupRecord) -> dict[str, object]:
    """Return a plan without its partitions: its cause, its scores and its certificate."""
    certificate = plan.certificate
    return {
        "plan_id": plan.plan_id,
        "group": plan.group,
        "mode": plan.mode,
        "strategy": plan.strategy,
        "cause": plan.cause,
        "at": plan.computed_at,
        "planner_epoch": plan.planner_epoch,
        "group_epoch": plan.group_epoch,
        "lag_at": plan.lag_at,
        "before": None if plan.before is None else dict(plan.before),
        "after": None if plan.after is None else dict(plan.after),
        "certificate": None if certificate is None else json_safe(as_document(certificate)),
    }


def finite(figure: float | None) -> float | None:
    """Return a figure, None where it is infinite or none at all: JSON has no such numbers."""
    return figure if figure is not None and math.isfinite(figure) else None


def json_safe(value: Any) -> Any:
    """Return a document in which every number is one that JSON has."""
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, dict):
        return {name: json_safe(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    return value


def _evidence(record: TriggerRecord) -> dict[str, object]:
    return {
        "since": record.since,
        "at": record.at,
        "figures": json_safe(as_document(record.evidence)),
    }


def _moving(view: GroupView) -> int:
    """Return the number of partitions that are being handed over."""
    if view.watched:
        return 0
    return sum(
        len(set(ranges.pairs(record.pending)) | set(ranges.pairs(record.revoking)))
        for record in view.assigned.values()
    )


def _moving_partitions(view: GroupView) -> frozenset[TopicPartition]:
    if view.watched:
        return frozenset()
    return frozenset(
        partition
        for record in view.assigned.values()
        for share in (record.pending, record.revoking)
        for partition in ranges.pairs(share)
    )


def _members(
    view: GroupView, measured: GroupLag, owners: Mapping[TopicPartition, str]
) -> list[dict[str, object]]:
    speeds, counts = view.speeds(), Counter(owners.values())
    if view.watched:
        return [
            _member(instance, "", "watched", rack, measured, speeds, counts)
            for instance, rack in sorted(view.racks().items())
        ]
    members = []
    for (instance, incarnation), record in sorted(view.assigned.items()):
        announced = view.members.get((instance, incarnation))
        members.append(
            _member(instance, incarnation, record.state, record.rack, measured, speeds, counts)
            | {
                "capacity": record.capacity,
                "pending": ranges.texts(record.pending),
                "revoking": ranges.texts(record.revoking),
                "member_epoch": record.member_epoch,
                "acked_epoch": announced.acked_epoch if announced else None,
            }
        )
    return members


def _member(
    instance: str,
    incarnation: str,
    state: str,
    rack: str | None,
    measured: GroupLag,
    speeds: Mapping[str, float],
    counts: Mapping[str, int],
) -> dict[str, object]:
    return {
        **_unknown_member(instance, rack),
        "incarnation": incarnation,
        "state": state,
        "partitions": counts.get(instance, 0),
        "lag": measured.members.get(instance),
        "unknown": measured.unknown_of.get(instance, 0),
        "load_seconds": finite(measured.loads.get(instance)),
        "speed": finite(speeds.get(instance)),
    }


def _unknown_member(instance: str, rack: str | None) -> dict[str, object]:
    return {
        "instance": instance,
        "incarnation": "",
        "state": "away",
        "rack": rack,
        "capacity": None,
        "partitions": 0,
        "lag": None,
        "unknown": 0,
        "load_seconds": None,
        "speed": None,
        "pending": {},
        "revoking": {},
        "member_epoch": None,
        "acked_epoch": None,
    }


def _topic_document(
    record: LagRecord,
    index: Mapping[str, int],
    owners: Mapping[TopicPartition, str],
    planned: Mapping[TopicPartition, str] | None,
    member_racks: Sequence[object],
    sets: dict[tuple[str, ...], int],
    moving: frozenset[TopicPartition],
) -> dict[str, object]:
    topic, count = record.topic, len(record.lag)
    lags = record.known_lag
    known = [lag for lag in lags if lag is not None]
    owner = [index.get(owners.get((topic, number), ""), NOBODY) for number in range(count)]
    return {
        "topic": topic,
        "partitions": count,
        "left": record.left,
        "at": record.at,
        "total_lag": sum(known) if known else None,
        "longest_wait_seconds": record.longest_wait,
        "committed": [None if offset < 0 else offset for offset in record.committed],
        "end": list(record.known_end),
        "lag": list(lags),
        "seconds": None if (waits := record.known_seconds) is None else list(waits),
        "rate": None if record.rate is None else list(record.rate),
        "owner": owner,
        "planned": None
        if planned is None
        else [index.get(planned.get((topic, number), ""), NOBODY) for number in range(count)],
        "local": [
            None
            if own == NOBODY or not racks or member_racks[own] is None
            # Whether the owner's rack holds a replica.
            else member_racks[own] in racks
            for own, racks in zip(owner, record.racks, strict=True)
        ],
        "racks": [sets.setdefault(racks, len(sets)) for racks in record.racks],
        "moving": sorted(number for name, number in moving if name == topic),
        "unclaimed": record.unclaimed_partitions,
        "unknown": sorted(record.unknown_partitions),
        "upper_bound": list(record.lag_upper_bound),
    }
