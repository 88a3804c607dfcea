"""Rows of one group: its members, its partitions, and how far they are as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from levelwind.assignors.protocol import partition_ranges as ranges
from levelwind.daemon.shown_groups.offset_rows import offset_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition
    from levelwind.assignors.protocol.records import EndKind, LagRecord
    from levelwind.daemon.shown_groups.group_view import GroupView
    from levelwind.daemon.wire.group_requests import DescribedMember


END_TEXTS: Mapping[EndKind, str] = {"stable": "stable offset", "high": "high watermark"}
"""What a lag record's `end` is, by its kind."""


def group_json(
    view: GroupView, described: Mapping[str, DescribedMember] | None = None
) -> dict[str, object]:
    """Everything that `levelwind describe` shows.

    Args:
        view: the group.
        described: its members as the brokers describe them, by instance or else by member id.
    """
    measured = view.measured()
    return {
        **view.summary(),
        "load": None if measured.drain is None else measured.drain.as_json(),
        "cross_rack": view.cross_rack()._asdict(),
        "leader_only_brokers": view.leader_only_brokers,
        "plan": view.plan.value() if view.plan else None,
        "proxy": view.proxy.value() if view.proxy else None,
        "trigger": {kind: record.value() for kind, record in view.triggers.items()},
        "member": member_rows(view),
        "partition": partition_rows(view),
        "offsets": [row._asdict() for row in offset_rows(view, described)],
    }


def member_rows(view: GroupView) -> list[dict[str, object]]:
    """One row for each member: of a managed group what it was granted, else what it owns."""
    return watched_member_rows(view) if view.watched else managed_member_rows(view)


def managed_member_rows(view: GroupView) -> list[dict[str, object]]:
    """One row for each incarnation that the planner knows."""
    measured, speeds = view.measured(), view.speeds()
    return [
        {
            "instance": instance,
            "incarnation": incarnation,
            "state": record.state,
            "rack": record.rack,
            "capacity": record.capacity,
            "assigned": ranges.texts(record.assigned),
            "pending": ranges.texts(record.pending),
            "revoking": ranges.texts(record.revoking),
            "acked_epoch": announced.acked_epoch if announced else None,
            "member_epoch": record.member_epoch,
            "lag": measured.members.get(instance),
            "unknown": measured.unknown_of.get(instance, 0),
            "load_seconds": measured.loads.get(instance),
            "speed": speeds.get(instance),
        }
        for (instance, incarnation), record in sorted(view.assigned.items())
        for announced in (view.members.get((instance, incarnation)),)
    ]


def watched_member_rows(view: GroupView) -> list[dict[str, object]]:
    """One row for each member that is known, and for each that the plan gives a partition."""
    measured, speeds = view.measured(), view.speeds()
    racks, owned = view.racks(), _by_member(view.owners())
    planned = None if (plan := view.planned()) is None else _by_member(plan)
    return [
        {
            "instance": instance,
            "rack": racks.get(instance),
            "owned": _texts(owned.get(instance)),
            "planned": None if planned is None else _texts(planned.get(instance)),
            "lag": measured.members.get(instance),
            "unknown": measured.unknown_of.get(instance, 0),
            "load_seconds": measured.loads.get(instance),
            "speed": speeds.get(instance),
        }
        for instance in sorted({*racks, *owned, *(planned or {})})
    ]


def _by_member(owners: dict[TopicPartition, str]) -> dict[str, set[TopicPartition]]:
    shares: dict[str, set[TopicPartition]] = {}
    for partition, member in owners.items():
        shares.setdefault(member, set()).add(partition)
    return shares


def _texts(share: set[TopicPartition] | None) -> dict[str, str]:
    return ranges.texts(ranges.by_topic(share or set()))


def partition_rows(view: GroupView) -> list[dict[str, object]]:
    """One row for each partition: owner, offsets, lag and racks; its planned owner if watched."""
    owners, planned = view.owners(), view.planned()
    return [
        {
            "topic": topic,
            "partition": number,
            "owner": owners.get((topic, number)),
            **({} if planned is None else {"planned": planned.get((topic, number))}),
            "committed": record.committed[number] if record.committed[number] >= 0 else None,
            "end": ends[number],
            "lag": lags[number],
            "note": notes[number],
            "racks": list(record.racks[number]),
            "at": record.at,
        }
        for topic, record in sorted(view.current_lags().items())
        for lags, ends, notes in ((record.known_lag, record.known_end, lag_notes(record)),)
        for number in range(len(lags))
    ]


def lag_notes(record: LagRecord) -> list[str | None]:
    """What is to be known beside the lag of each partition; None: nothing."""
    marks = _Marks(
        reset=frozenset(record.reset),
        unknown=record.unknown_partitions,
        stale=frozenset(record.stale),
        upper_bound=frozenset(record.lag_upper_bound),
        unclaimed="left" if record.left else "unclaimed",
    )
    return [_lag_note(record, marks, number) for number in range(len(record.lag))]


class _Marks(NamedTuple):
    """Partitions of a lag record that it names for a reason."""

    reset: frozenset[int]
    unknown: frozenset[int]
    stale: frozenset[int]
    upper_bound: frozenset[int]
    unclaimed: str
    """The word for partitions that nobody claims."""


def _lag_note(record: LagRecord, marks: _Marks, number: int) -> str | None:
    unread = record.end[number] < 0
    if record.unclaimed is not None and record.unclaimed[number] >= 0:
        waiting = "not known" if unread else f"{record.unclaimed[number]:,} records"
        policy = " by the reset policy" if record.committed[number] < 0 else ""
        return f"{marks.unclaimed}: {waiting}{policy}"
    if number in marks.reset:
        return "commit beyond the log: by the reset policy"
    if unread:
        return "not known: the log end could not be read"
    if number in marks.unknown:
        return "not known: the log end was last read before the commit"
    if number in marks.stale and record.committed_at[number] <= record.at:
        return f"commit beyond the {END_TEXTS[record.end_kind]}"
    if record.committed[number] < 0 and record.lag[number]:
        return "no commit: by the reset policy"
    return "upper bound: may count aborted records" if number in marks.upper_bound else None
