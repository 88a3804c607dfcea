"""Replays of a topic's records: whether a record that could not be decoded earlier still applies.

A commit that an open transaction holds back comes as a replay, too, ahead of its own reading.

Records are ordered by their positions in the log, not by when they are read. The operator's command
has searched the log for newer records of the replay's key up to the offset `until`; the topic's
state knows the records after it: a newer commit, sample or layout outdates the replay. A newer
tombstone leaves no entry in the state. The state only keeps the position of the last tombstone in
each partition of the offsets topic: if that is at or after `until`, the tombstone may be of the
replay's key, and the operator must ask for the replay again.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np

from levelwind.assignors.protocol.records import OffsetsRecord, TopicRecord
from levelwind.streaming.messages.rows import PASS_THROUGH_PREFIX, Kind, Raw, Row
from levelwind.streaming.rules.event_time import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from levelwind.streaming.messages.topic_columns import TopicCommits
    from levelwind.streaming.topic.batch import ReadRecord
    from levelwind.streaming.topic.commit_columns import CommitColumns
    from levelwind.streaming.topic.state import TopicState


class Verdict(Enum):
    """Whether a replayed record applies."""

    APPLIES = auto()
    OUTDATED = auto()
    """Something newer is known."""
    UNSURE = auto()
    """Something newer may have come and gone: the replay must be asked for again."""


def applicable_commits(
    replays: Iterable[TopicCommits],
    batches: Sequence[TopicCommits],
    state: TopicState,
    commits_topic: str,
) -> tuple[list[TopicCommits], list[Row]]:
    """The replayed commits that apply, and the rows that end replays.

    A replay ends unless its verdict is unsure.

    Args:
        replays: the replays, each of one commit.
        batches: the commits that were read with them.
        state: the topic's state before the batch.
        commits_topic: the topic that commits are read from.
    """
    applicable: list[TopicCommits] = []
    ended: list[Row] = []
    for replay in replays:
        verdict = commit_verdict(replay, batches, state)
        if verdict is Verdict.APPLIES:
            applicable.append(replay)
        if verdict is not Verdict.UNSURE:
            ended.append(
                _replay_done(commits_topic, int(replay.source[0]), int(replay.position[0]))
            )
    return applicable, ended


def applicable_records(
    records: Iterable[ReadRecord], state: TopicState
) -> tuple[list[ReadRecord], list[Row]]:
    """The observer's records without outdated replays, and the rows that end the replays."""
    applicable: list[ReadRecord] = []
    ended: list[Row] = []
    for read in records:
        raw = read.raw
        if raw.replayed:
            ended.append(_replay_done(raw.topic, raw.partition, raw.offset))
        if not raw.replayed or record_verdict(read, state) is Verdict.APPLIES:
            applicable.append(read)
    return applicable, ended


def commit_verdict(
    replay: TopicCommits, batches: Iterable[TopicCommits], state: TopicState
) -> Verdict:
    """Whether a replayed commit applies.

    Args:
        replay: one commit.
        batches: the commits that were read with it.
        state: the topic's state before the batch.
    """
    group, partition = replay.groups[int(replay.group[0])], int(replay.partition[0])
    source, position = int(replay.source[0]), int(replay.position[0])
    newest = UNKNOWN
    tables: list[CommitColumns | TopicCommits] = [state.commits, state.uncounted_commits, *batches]
    for table in tables:
        if group in table.groups:
            same = (table.group == table.groups.index(group)) & (table.partition == partition)
            newest = max(newest, int(table.position[same].max(initial=UNKNOWN)))
    if newest >= position:
        return Verdict.OUTDATED
    # The replay is newer than the commit that is known, or there is none: a tombstone may have come
    # after the replay.
    tombstone = state.last_tombstones.get(str(source), UNKNOWN)
    return Verdict.UNSURE if tombstone >= replay.until else Verdict.APPLIES


def record_verdict(replay: ReadRecord, state: TopicState) -> Verdict:
    """Whether a replayed record of the observer applies."""
    raw = replay.raw
    match replay.record:
        case OffsetsRecord():
            newest = [state.sample_position]
        case TopicRecord():
            newest = [state.layout_position]
        case _:  # a tombstone
            newest = [state.sample_position, state.layout_position]
    log = f"{raw.topic}/{raw.partition}"
    outdated = any(
        position is not None and position[0] == log and position[1] > raw.offset
        for position in newest
    )
    return Verdict.OUTDATED if outdated else Verdict.APPLIES


def newest_tombstones(
    batches: Iterable[TopicCommits], before: Mapping[str, int]
) -> Mapping[str, int]:
    """The newest tombstone of each partition of the offsets topic, after some commits."""
    newest = dict(before)
    for batch in batches:
        tombstone = batch.offset < 0
        for source in np.unique(batch.source[tombstone]).tolist():
            last = int(batch.position[tombstone & (batch.source == source)].max())
            newest[str(source)] = max(last, newest.get(str(source), UNKNOWN))
    return newest


def _replay_done(topic: str, partition: int, offset: int) -> Row:
    raw = Raw(topic=topic, partition=partition, offset=offset, timestamp=0, key=None, value=None)
    return Row(f"{PASS_THROUGH_PREFIX}{partition}", "", Kind.REPLAY_DONE, raw.pack())
