"""Speeds of the members of many groups: `rules.speed` on the columns of a bucket."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.protocol.records import SpeedRecord
from levelwind.streaming.bucket.state import ranges
from levelwind.streaming.group.member_speeds import count_commits, record_of
from levelwind.streaming.rules import speed
from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.rules.speed import FORGET_MS, NO_COMMIT, WINDOWS, SpeedColumns

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import Tombstone
    from levelwind.streaming.bucket.state import BucketState
    from levelwind.streaming.rules.event_time import Floats, Int64, Mask

PARTS = {
    field.name: f"speed_{field.name}" for field in fields(SpeedColumns) if field.name != "windows"
}
"""By field of `SpeedColumns`, the column by owner; `windows` has a column for each window."""
WINDOW_COLUMNS = tuple(f"window{number}" for number in range(WINDOWS))


def columns_of(state: BucketState, owner: Int64) -> SpeedColumns:
    """Copies of the columns of some owners."""
    parts = {name: state[column][owner] for name, column in PARTS.items()}
    windows = np.stack([state[column][owner] for column in WINDOW_COLUMNS], axis=1)
    return SpeedColumns(**parts, windows=windows.astype(np.float64))


def put(state: BucketState, owner: Int64, columns: SpeedColumns) -> None:
    """Write the columns of some owners back."""
    for name, column in PARTS.items():
        state[column][owner] = getattr(columns, name)
    for number, column in enumerate(WINDOW_COLUMNS):
        state[column][owner] = columns.windows[:, number]


def learning_groups(state: BucketState) -> Mask:
    """By group, whether a member has been behind, or changed, and is not forgotten yet."""
    learning = np.zeros(len(state.groups), np.bool_)
    known = (state["speed_latest"] != UNKNOWN) | (state["speed_shown"] != NO_COMMIT)
    owner = np.flatnonzero(known)
    learning[np.searchsorted(state.first_owner, owner, side="right") - 1] = True
    return learning


def speeds_of(state: BucketState, owner: Int64) -> Floats:
    """The speeds of some owners in records a second; NaN where none is known."""
    known = np.flatnonzero(state[WINDOW_COLUMNS[0]][owner])
    speeds = np.full(owner.size, np.nan)
    if known.size:
        speeds[known] = speed.speeds(columns_of(state, owner[known]))
    return speeds


def take_in_commits(
    state: BucketState, group: Int64, entry: Int64, advance: Int64, behind_at: Int64
) -> None:
    """Take in what the members of some groups have committed in a topic.

    Args:
        state: the bucket; changed.
        group: the groups.
        entry: the entry of each in the topic.
        advance: a matrix, these groups by partitions; see `LagSamples`.
        behind_at: a matrix, these groups by partitions.
    """
    owners = state["owners"][group].astype(np.int64)
    owner = ranges(state.first_owner[group], owners)
    claims = state["claims"][entry].astype(np.int64)
    claim = ranges(state.first_claim[entry], claims)
    row = np.repeat(np.arange(entry.size), claims)
    partition = state["cell"][claim]
    member = (np.cumsum(owners) - owners)[row] + state["owner"][claim]
    columns = columns_of(state, owner)
    count_commits(columns, member, advance[row, partition], behind_at[row, partition])
    learns = state["learns"][owner]
    put(state, owner[learns], columns.take(learns))


def evaluate(state: BucketState, groups: Int64) -> Int64:
    """Evaluate the commits that the groups' newest samples counted.

    Args:
        state: the bucket; changed.
        groups: the groups to evaluate.

    Returns:
        The groups whose speeds are to be published.
    """
    owners = state["owners"][groups].astype(np.int64)
    owner = ranges(state.first_owner[groups], owners)
    group = np.repeat(groups, owners)
    latest = state["speed_latest"][owner]
    at = state["sampled_at"][group]
    due = (latest != UNKNOWN) & (at - latest >= FORGET_MS)
    due |= state["speed_shown"][owner] != NO_COMMIT
    due &= state["learns"][owner]
    if not due.any():
        return groups[:0]
    columns = columns_of(state, owner[due])
    speed.evaluate(columns, at[due])
    put(state, owner[due], columns)
    return np.unique(group[due][speed.worth_publishing(columns)])


def published(state: BucketState, group: int) -> SpeedRecord | Tombstone:
    """Mark the speeds of a group's members as published with its newest sample; give their record.

    Args:
        state: the bucket; changed.
        group: a group whose speeds are all in the columns.
    """
    owner = np.arange(*state.first_owner[group : group + 2].tolist())
    columns = columns_of(state, owner)
    speed.mark_published(columns)
    put(state, owner, columns)
    names = [str(json.loads(state.owner_names[index])) for index in owner.tolist()]
    at = int(state["sampled_at"][group])
    record = record_of(state.groups[group], at, names, columns)
    state["speeds_at"][group] = at if isinstance(record, SpeedRecord) else UNKNOWN
    return record
