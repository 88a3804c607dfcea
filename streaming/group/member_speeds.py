"""Speeds of a group's members, learned from the commits that its samples count.

`rules.speed` is the law of a member. A member that gets other partitions, or loses some, begins a
new window. While two incarnations of an instance own partitions, nothing is learned of it. All
functions are pure.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from levelwind.assignors.protocol.records import MemberSpeed, SpeedRecord, Tombstone
from levelwind.streaming.group.state import LearnedSpeed
from levelwind.streaming.rules import speed
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.speed import FORGET_MS, SpeedColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.streaming.group.state import GroupState, Owner
    from levelwind.streaming.messages.lag_columns import LagSample
    from levelwind.streaming.rules.event_time import Floats, Int64


NOTHING = LearnedSpeed()


def learning_members(owners: Sequence[Owner]) -> list[bool]:
    """By member, whether its speed can be learned: no other has its name."""
    count = Counter(owner.name for owner in owners)
    return [count[owner.name] == 1 for owner in owners]


def columns_of(speeds: Mapping[str, LearnedSpeed], names: Iterable[str]) -> SpeedColumns:
    """What is known of the speeds of some members, as columns by member."""
    known = [speeds.get(name, NOTHING) for name in names]
    columns = SpeedColumns.unknown(len(known))
    for column in fields(SpeedColumns):
        for index, member in enumerate(known):
            getattr(columns, column.name)[index] = getattr(member, column.name)
    return columns


def with_columns(state: GroupState, owners: Sequence[Owner], columns: SpeedColumns) -> GroupState:
    """The state with what the columns show of those members whose speeds can be learned."""
    speeds = dict(state.speeds)
    for index, (owner, learns) in enumerate(zip(owners, learning_members(owners), strict=True)):
        if learns:
            speeds.pop(owner.name, None)
            if (known := learned(columns, index)) != NOTHING:
                speeds[owner.name] = known
    return replace(state, speeds=speeds)


def learned(columns: SpeedColumns, index: int) -> LearnedSpeed:
    """What is known of one member's speed."""
    values: dict[str, Any] = {
        column.name: getattr(columns, column.name)[index].tolist()
        for column in fields(SpeedColumns)
    }
    return LearnedSpeed(**values | {"windows": tuple(values["windows"])})


def with_commits(state: GroupState, sample: LagSample, owners: Sequence[Owner]) -> GroupState:
    """Take in what members have committed up to a sample of a topic."""
    if sample.advance is None or sample.behind_at is None:
        return state
    if not state.speeds and not (sample.behind_at != UNKNOWN).any():
        return state
    columns = columns_of(state.speeds, [owner.name for owner in owners])
    claims = [
        (index, partition)
        for index, owner in enumerate(owners)
        for partition in owner.assigned.get(sample.topic, ())
        if partition < sample.lag.size
    ]
    member, partition = np.array(claims, np.int64).reshape(-1, 2).T
    count_commits(columns, member, sample.advance[partition], sample.behind_at[partition])
    return with_columns(state, owners, columns)


def count_commits(columns: SpeedColumns, member: Int64, advance: Int64, behind_at: Int64) -> None:
    """Take in commits by partition.

    Args:
        columns: of the members; changed.
        member: index of the owner, by owned partition.
        advance: offsets by which its commit advanced.
        behind_at: time of that commit if it was behind; otherwise `UNKNOWN`.
    """
    count = columns.since.size
    is_behind = behind_at != UNKNOWN
    records = np.bincount(member, weights=advance, minlength=count).astype(np.int64)
    behind = np.bincount(member, weights=advance * is_behind, minlength=count).astype(np.int64)
    latest = np.full(count, UNKNOWN, np.int64)
    np.maximum.at(latest, member, behind_at)
    speed.count_commits(columns, records, behind, latest)


def evaluated(state: GroupState, owners: Sequence[Owner]) -> GroupState:
    """Evaluate the commits that the newest samples counted."""
    if not state.speeds:
        return state
    columns = columns_of(state.speeds, [owner.name for owner in owners])
    speed.evaluate(columns, np.full(len(owners), state.sampled_at))
    return with_columns(state, owners, columns)


def with_owners(
    state: GroupState, before: Sequence[Owner], after: Sequence[Owner], at: int
) -> GroupState:
    """Take in that members have come, left, or got other partitions, at a time.

    What they commit up to the next evaluation shows nothing: it may be read before or after the
    change. The speeds of those that have left are kept for `FORGET_MS`.
    """
    if before == after:
        return state
    held = {owner.name: owner.assigned for owner in before}
    holds = {owner.name: owner.assigned for owner in after}
    speeds = dict(state.speeds)
    for name in held.keys() | holds.keys():
        if held.get(name) != holds.get(name):
            known = speeds.get(name, NOTHING)
            speeds[name] = replace(
                known,
                since=UNKNOWN,
                latest=at if any(known.windows) else UNKNOWN,
                records=0,
                behind=0,
                shown=speed.CHANGED if name in holds else speed.NO_COMMIT,
            )
    return replace(
        state,
        speeds={
            name: known
            for name, known in speeds.items()
            if known != NOTHING and (name in holds or at - known.latest < FORGET_MS)
        },
    )


def worth_publishing(state: GroupState, owners: Sequence[Owner]) -> bool:
    """Whether the speed of a member differs enough from the one that was published."""
    if not state.speeds:
        return False
    learns = np.array(learning_members(owners), np.bool_)
    return bool(
        (
            speed.worth_publishing(columns_of(state.speeds, [owner.name for owner in owners]))
            & learns
        ).any()
    )


def published_names(state: GroupState) -> set[str]:
    """The members whose speeds are published."""
    return {name for name, known in state.speeds.items() if known.published_windows}


def published(
    group: str, state: GroupState, owners: Sequence[Owner], at: int
) -> tuple[GroupState, SpeedRecord | Tombstone]:
    """The state with all speeds published at a time, and their record.

    The record is a tombstone if no speed is known.
    """
    columns = columns_of(state.speeds, [owner.name for owner in owners])
    speed.mark_published(columns)
    state = with_columns(state, owners, columns)
    names = sorted(state.speeds)
    record = record_of(group, at, names, columns_of(state.speeds, names))
    speeds_at = at if isinstance(record, SpeedRecord) else UNKNOWN
    return replace(state, speeds_at=speeds_at), record


def record_of(
    group: str, at: int, names: Sequence[str], columns: SpeedColumns
) -> SpeedRecord | Tombstone:
    """The record of some members' speeds, a tombstone if none is known."""
    sure = speed.sureness(speed.window_counts(columns)).tolist()
    members = {
        name: MemberSpeed(speed=published_speed(figure), sure=round(sure, 2))
        for name, figure, sure in zip(names, speed.speeds(columns).tolist(), sure, strict=True)
        if figure > 0
    }
    if not members:
        return Tombstone(("speed", group))
    return SpeedRecord(group=group, at=at, members=members)


def published_speed(speed: float, decimals: int = 2) -> float:
    """A speed above 0 as its record has it: with some decimals, and with three digits at least.

    It is never rounded to 0, for which readers reject the whole record of speeds.
    """
    return round(speed, max(decimals, 2 - math.floor(math.log10(speed))))


def speeds_of(state: GroupState, owners: Sequence[Owner]) -> Floats:
    """The members' speeds in records a second; NaN where none is known."""
    if not state.speeds:
        return np.full(len(owners), np.nan)
    return speed.speeds(columns_of(state.speeds, [owner.name for owner in owners]))


def is_behind(state: GroupState, owners: Sequence[Owner]) -> bool:
    """Whether some member is behind: a window of its speed is open."""
    return any(
        state.speeds[owner.name].since != UNKNOWN for owner in owners if owner.name in state.speeds
    )
