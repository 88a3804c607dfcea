"""Update of a bucket of groups by a batch: a pure function of the state and the batch's rows.

`group.update` is the law of a single group. Samples and lag are applied in columns, to all groups
at once; a group for which the batch holds anything else, or that a sample gives a trigger, is taken
out of the columns, updated by that law, and put back. The results are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from levelwind.streaming.bucket.bucket_batch import BucketBatch
from levelwind.streaming.bucket.group_columns import from_columns, to_columns
from levelwind.streaming.bucket.samples import ColumnUpdate
from levelwind.streaming.bucket.state import (
    GROUPS,
    MEMBERS,
    SAMPLES,
    VALUES,
    BucketState,
    pack_groups,
    unpack_groups,
)
from levelwind.streaming.group import update as group_update
from levelwind.streaming.rules.cadence import LASTING_SKEW_MS
from levelwind.streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from levelwind.assignors.protocol.records import SpeedRecord, Tombstone
    from levelwind.assignors.protocol.topics import TopicKind
    from levelwind.streaming.bucket.samples import PublishedLags
    from levelwind.streaming.group.state import GroupState
    from levelwind.streaming.group.update import UpdateResult
    from levelwind.streaming.rules.skew import SkewRule


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketResult:
    """The state of a bucket after a batch, and what is to be published."""

    values: Mapping[str, bytes | None]
    """By name, the values of the state that have changed; None: nothing is left to keep."""
    lags: Sequence[PublishedLags]
    """Lag records of the groups whose batch was applied in columns."""
    speeds: Sequence[SpeedRecord | Tombstone]
    """Records of the speeds of such groups."""
    groups: Mapping[str, UpdateResult]
    """The result of each other group that the batch is about, in order."""
    at_stake: bool
    """Whether skew counts in a group that somebody may level: see `rules.cadence`."""


def advance(
    stored: Callable[[str], bytes | None],
    rows: Iterable[tuple[str, int, bytes]],
    rule: SkewRule,
    record_kinds: Mapping[str, TopicKind],
) -> BucketResult:
    """Apply a batch to the groups of a bucket.

    Args:
        stored: gives a value of the state before the batch by its name; None: there is none.
        rows: group, kind and payload of the bucket's rows, in any order.
        rule: when skew counts.
        record_kinds: see `group.update.advance`.
    """
    samples, members = stored(SAMPLES), stored(MEMBERS)
    if samples is None or members is None:
        state = BucketState()
    else:
        state = BucketState.unpack(samples, members)
    batch = BucketBatch.of(rows)
    update = ColumnUpdate(state, rule)
    for group in batch.rows:
        update.single_out(group)
    update.apply(batch.samples, batch.lags)
    lags, speeds = list(update.publish()), update.speeds()
    if not (update.unknown or update.singled_out.any()):
        values = {SAMPLES: update.state.pack_samples()} if update.changed else {}
        at_stake = _at_stake(update.state, rule)
        return BucketResult(values=values, lags=lags, speeds=speeds, groups={}, at_stake=at_stake)
    packed = unpack_groups(value) if (value := stored(GROUPS)) is not None else {}
    before = _taken_out(state, update, packed)
    results = {
        group: group_update.advance(group, before.get(group), of_group, rule, record_kinds)
        for group, of_group in batch.by_group(before.keys() | update.unknown).items()
    }
    states = {group: result.state for group, result in results.items() if result.state is not None}
    after = update.state.take(np.flatnonzero(~update.singled_out))
    put_back, packed_again = to_columns(states, after)
    after = after.followed_by(put_back)
    packed = {group: value for group, value in packed.items() if group not in before}
    return BucketResult(
        values=_values(after, packed | packed_again),
        lags=lags,
        speeds=speeds,
        groups=results,
        at_stake=_at_stake(after, rule),
    )


def _at_stake(state: BucketState, rule: SkewRule) -> bool:
    """Whether skew counts in a group, and not for so long that nobody levels it."""
    lasted = state["evaluated_at"] - state["since"]
    recent = lasted <= max(LASTING_SKEW_MS, rule.duration_ms)
    return bool(((state["since"] != UNKNOWN) & recent).any())


def _taken_out(
    state: BucketState, update: ColumnUpdate, packed: Mapping[str, bytes]
) -> dict[str, GroupState]:
    """The states, as before the batch, of the groups that are singled out."""
    return {
        state.groups[number]: from_columns(state, number, packed[state.groups[number]])
        for number in np.flatnonzero(update.singled_out).tolist()
    }


def _values(state: BucketState, packed: Mapping[str, bytes]) -> dict[str, bytes | None]:
    if not state.groups:
        return dict.fromkeys(VALUES)
    return {
        SAMPLES: state.pack_samples(),
        MEMBERS: state.pack_members(),
        GROUPS: pack_groups(packed),
    }
