"""Documents about one group: its line of the table, and everything about it.

Commands and the API show the same. Partitions are many: what is known of each is a list by
partition for each topic, and members and sets of racks are named once and referred to by their
index.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.assignors.protocol.declared.declaration import as_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import GroupRecord, LagRecord, TriggerRecord
    from levelwind.daemon.shown_groups.shown_group import ShownGroup

NOBODY = -1
"""Index of the owner of a partition that nobody owns, and of the racks of one without any."""

IDLE_STATES = frozenset({"evicted", "refused"})
"""States of lives of an instance that own nothing: the figures are those of its active life."""


def group_summary(shown: ShownGroup) -> dict[str, object]:
    """Return a group's line of the table of groups. Cost: the group's partitions."""
    records, measured, plan = shown.records, shown.measured, shown.records.plan
    lag, crossing = measured.lag, measured.crossing
    sampled = measured.lags.values()
    waits = [wait for record in sampled if (wait := record.longest_wait) is not None]
    planned = shown.planned_figures
    return {
        "group": shown.name,
        "mode": plan.mode if plan else "watched",
        "strategy": plan.strategy if plan else None,
        "group_epoch": plan.group_epoch if plan else None,
        "members": len(lag.members),
        "topics": len(sampled),
        "left_topics": shown.left_topics,
        "partitions": sum(len(record.lag) for record in sampled),
        "unclaimed": measured.unclaimed,
        "lag": lag.total,
        "unknown": lag.unknown,
        "lag_at": lag.oldest_at,
        "longest_wait_seconds": max(waits, default=None),
        "wait_lower_bounds": measured.wait_lower_bounds,
        "drain_seconds": finite(lag.drain_seconds),
        "best_drain_seconds": finite(lag.best_drain_seconds),
        "skew": finite(lag.skew),
        "cross_rack": finite(
            crossing.nominal if crossing.effective is None else crossing.effective
        ),
        "moving": len(shown.moving),
        "plan_id": plan.plan_id if plan else None,
        "planned_at": plan.computed_at if plan else None,
        "planned": None if planned is None else planned._asdict(),
        "triggers": sorted(records.triggers),
        "unwritten": records.unwritten_names,
    }


def group_document(shown: ShownGroup) -> dict[str, object]:
    """Return everything about a group. Cost: the group's partitions."""
    records, measured = shown.records, shown.measured
    members = member_documents(shown)
    owning = sorted(enumerate(members), key=lambda each: each[1]["state"] not in IDLE_STATES)
    index = {str(member["instance"]): number for number, member in owning}
    member_racks = [member["rack"] for member in members]
    sets: dict[tuple[str, ...], int] = {}
    drain = measured.lag.drain
    return {
        **group_summary(shown),
        "load": None if drain is None else json_safe(drain.as_json()),
        "cross_rack_shares": measured.crossing._asdict(),
        "leader_only_brokers": records.leader_only_brokers,
        "proxy": None if records.proxy is None else records.proxy.standing,
        "plan": None if records.plan is None else plan_document(records.plan),
        "evidence": {kind: _evidence(record) for kind, record in sorted(records.triggers.items())},
        "member": members,
        "topic": [
            _topic_document(
                record, index, measured.owners, shown.planned, member_racks, sets, shown.moving
            )
            for _, record in sorted(measured.lags.items())
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


def member_documents(shown: ShownGroup) -> list[dict[str, object]]:
    """Return each incarnation that the planner knows; where the group subscribes, each member.

    Instances follow that own a partition, or are to, and of which no more is known.
    """
    records, racks = shown.records, shown.measured.racks
    owned, planned = _by_member(shown.measured.owners), _by_member(shown.planned or {})

    def document(
        instance: str, rack: str | None, state: str = "away", **known: object
    ) -> dict[str, object]:
        lag, idle = shown.measured.lag, state in IDLE_STATES
        share = set() if idle else owned.get(instance, set())
        return {
            "instance": instance,
            "incarnation": "",
            "state": state,
            "rack": rack,
            "capacity": None,
            "partitions": len(share),
            "owned": ranges.texts(ranges.by_topic(share)),
            "planned": None
            if shown.planned is None
            else ranges.texts(ranges.by_topic(planned.get(instance, set()))),
            "lag": None if idle else lag.members.get(instance),
            "unknown": 0 if idle else lag.unknown_of.get(instance, 0),
            "load_seconds": None if idle else finite(lag.loads.get(instance)),
            "speed": None if idle else finite(shown.measured.speeds.get(instance)),
            "assigned": {},
            "pending": {},
            "revoking": {},
            "member_epoch": None,
            "acked_epoch": None,
            **known,
        }

    if records.watched:
        members = [document(name, rack, state="watched") for name, rack in sorted(racks.items())]
    else:
        members = [
            document(
                instance,
                record.rack,
                incarnation=incarnation,
                state=record.state,
                capacity=record.capacity,
                assigned=ranges.texts(record.assigned),
                pending=ranges.texts(record.pending),
                revoking=ranges.texts(record.revoking),
                member_epoch=record.member_epoch,
                acked_epoch=announced.acked_epoch if announced else None,
            )
            for (instance, incarnation), record in sorted(records.assigned.items())
            for announced in (records.members.get((instance, incarnation)),)
        ]
    named = {member["instance"] for member in members}
    return [
        *members,
        *(document(name, racks.get(name)) for name in sorted((owned.keys() | planned) - named)),
    ]


def _by_member(owners: Mapping[TopicPartition, str]) -> dict[str, set[TopicPartition]]:
    shares: dict[str, set[TopicPartition]] = {}
    for partition, member in owners.items():
        shares.setdefault(member, set()).add(partition)
    return shares


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
    owner = [index.get(owners.get((topic, number), ""), NOBODY) for number in range(count)]
    return {
        "topic": topic,
        "partitions": count,
        "left": record.left,
        "at": record.at,
        "total_lag": record.total_lag,
        "longest_wait_seconds": record.longest_wait,
        "committed": [None if offset < 0 else offset for offset in record.committed],
        "end": list(record.known_end),
        "lag": list(record.known_lag),
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
        "seconds_lower_bound": sorted(record.least_waits),
    }
