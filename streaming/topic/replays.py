"""Whether a topic's replayed record may still count: records are ordered by where they stand, not by when they are read.

Who asks for a replay has looked for newer records of its key below `until`. What came since is known here, where it is:
a newer commit, sample or layout takes the replay's place. A newer tombstone leaves nothing behind but the place of the
last one that was read of each partition of the offsets topic; a replay that nobody has compared with it must be asked for again.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np

from assignors.protocol.records import OffsetsRecord, TopicRecord, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streaming.messages.rows import (
        Raw,
        TopicCommits,
    )
    from streaming.topic.commit_table import CommitTable


class Verdict(Enum):
    """What a replayed record is due."""

    APPLIES = auto()
    OUTDATED = auto()
    """Something newer is known."""
    UNSURE = auto()
    """Something newer may have come and gone: it must be asked for again."""


def commit_verdict(
    replay: TopicCommits,
    tables: Iterable[CommitTable],
    batches: Iterable[TopicCommits],
    last_tombstones: Mapping[str, int],
) -> Verdict:
    """What a replayed commit is due.

    Args:
        replay: one commit.
        tables: those that are known.
        batches: those that were read with it.
        last_tombstones: by partition of the offsets topic, the offset of the last tombstone before this batch.
    """
    group, partition = replay.groups[int(replay.group[0])], int(replay.partition[0])
    source, position = int(replay.source[0]), int(replay.position[0])
    newest = -1
    known_commits: list[CommitTable | TopicCommits] = [*tables, *batches]
    for known in known_commits:
        if group in known.groups:
            same = (known.group == known.groups.index(group)) & (known.partition == partition)
            newest = max(newest, int(known.position[same].max(initial=-1)))
    if newest >= position:
        return Verdict.OUTDATED
    # Older than what it stands before, or alone: a tombstone of its key may have come between.
    return (
        Verdict.UNSURE if last_tombstones.get(str(source), -1) >= replay.until else Verdict.APPLIES
    )


def record_verdict(
    replay: Raw, sampled: tuple[str, int] | None, layout_position: tuple[str, int] | None
) -> Verdict:
    """What a replayed record of the observer is due; the places are those of the newest ones."""
    record = decode("metadata", replay.key, replay.value)
    match record:
        case OffsetsRecord():
            newest = [sampled]
        case TopicRecord():
            newest = [layout_position]
        case _:  # a tombstone
            newest = [sampled, layout_position]
    here = f"{replay.topic}/{replay.partition}"
    later = any(
        place is not None and place[0] == here and place[1] > replay.offset for place in newest
    )
    return Verdict.OUTDATED if later else Verdict.APPLIES


def newest_tombstones(batches: Iterable[TopicCommits], before: Mapping[str, int]) -> dict[str, int]:
    """By partition of the offsets topic, the offset of the last tombstone."""
    last_tombstones = dict(before)
    for batch in batches:
        gone = batch.offset < 0
        for source in np.unique(batch.source[gone]).tolist():
            last = int(batch.position[gone & (batch.source == source)].max())
            last_tombstones[str(source)] = max(last, last_tombstones.get(str(source), -1))
    return last_tombstones
