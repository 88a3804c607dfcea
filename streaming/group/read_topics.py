"""Topics that a group reads, and its lag in them. All functions are pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from levelwind.streaming.group import member_speeds
from levelwind.streaming.group.ownership import partition_owners
from levelwind.streaming.group.state import GroupState, Owner, PartitionOwners, TopicLag
from levelwind.streaming.rules.event_time import JUMP_MS, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.streaming.messages.lag_columns import LagRow, LagSample
    from levelwind.streaming.messages.lag_json import Claim


class OwnedLag(NamedTuple):
    """A group's lag in a topic, and who claims the topic's partitions."""

    row: LagRow
    owners: PartitionOwners
    """The owners at the lag's sample."""
    claim: Claim
    """What the group claims beside what its members own."""


def with_sample(state: GroupState, sample: LagSample, owners: tuple[Owner, ...]) -> GroupState:
    """Apply the group's lag in a topic at one sample; `owners` are its members at that time.

    A late sample changes nothing, nor does one of a topic that the group no longer reads. A sample
    that is older than the topic's newest by `JUMP_MS` or more is not late: the clock was set back.
    """
    newest = state.lags.get(sample.topic)
    if newest is not None and 0 <= newest.at - sample.at < JUMP_MS:
        return state
    committed = {sample.topic} if sample.committed_at != UNKNOWN else set()
    if not committed and not reads_uncommitted(state, sample.topic):
        return state
    lag = TopicLag(
        at=sample.at,
        lag=sample.lag,
        rate=sample.rate,
        seconds=sample.seconds,
        committed_at=sample.committed_at,
        source=sample.source,
        owners=partition_owners(owners, sample.topic, sample.lag.size),
    )
    state = member_speeds.with_commits(state, sample, owners)
    clock_set_back = state.sampled_at - sample.at >= JUMP_MS
    return replace(
        state,
        committed_topics=state.committed_topics - {sample.topic} | committed,
        lags={**state.lags, sample.topic: lag},
        sampled_at=sample.at if clock_set_back else max(state.sampled_at, sample.at),
    )


def reads_uncommitted(state: GroupState, topic: str) -> bool:
    """Whether the group reads a topic, by its plan or its members, without any commit."""
    return topic in state.planned_topics or topic in state.member_topics


def read_by(state: GroupState) -> frozenset[str]:
    """The topics that the group reads."""
    return state.committed_topics | state.planned_topics | state.member_topics


def with_lag_rows(state: GroupState, rows: Mapping[str, LagRow]) -> GroupState:
    """Apply which topics the group has commits in after a batch; `rows` are by topic."""
    committed = frozenset(topic for topic, row in rows.items() if row.committed)
    return replace(state, committed_topics=state.committed_topics - rows.keys() | committed)


def without_topic(state: GroupState, topic: str) -> GroupState:
    """Drop all that is known of a topic."""
    return replace(
        state,
        lags={name: lag for name, lag in state.lags.items() if name != topic},
        topic_ids={name: known for name, known in state.topic_ids.items() if name != topic},
        layouts={name: known for name, known in state.layouts.items() if name != topic},
        racks_sources={
            name: source for name, source in state.racks_sources.items() if name != topic
        },
        committed_topics=state.committed_topics - {topic},
    )


def unread_topics(state: GroupState) -> list[str]:
    """The topics with lag or racks that the group does not read any more, in order."""
    return sorted((state.lags.keys() | state.layouts.keys()) - read_by(state))


def owned_lags(state: GroupState, rows: Mapping[str, LagRow]) -> tuple[OwnedLag, ...]:
    """The lag of some topics with the owners of their partitions, by topic in order."""
    return tuple(
        OwnedLag(row, owners, owners.claim.with_plan(planned=topic in state.planned_topics))
        for topic, row in sorted(rows.items())
        for owners in (_owners_at_sample(state, row),)
    )


def _owners_at_sample(state: GroupState, row: LagRow) -> PartitionOwners:
    """The owners at the sample of a lag row; none where that sample is not the newest."""
    newest = state.lags.get(row.topic)
    if newest is not None and (newest.at, newest.lag.size) == (row.at, row.partitions):
        return newest.owners
    return PartitionOwners(owner=np.full(row.partitions, -1, np.int64))
