"""Deletion of a topic, and its creation again under its name: the commits that outlive it.

Polled commits stay until their tombstones. Who asks for commits now and then sees nothing new where
a group has committed to the new topic the offset that it had committed to the former one, and
writes no record that could bring the commit back; where the commit is gone, a tombstone follows
within the interval of polling.

Pure functions of the topic's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from levelwind.streaming.rules.event_time import UNKNOWN
from levelwind.streaming.topic.state import TopicState

if TYPE_CHECKING:
    from levelwind.streaming.rules.event_time import Mask
    from levelwind.streaming.topic.commit_columns import CommitColumns


def recreated(state: TopicState, topic_id: str, at: int, *, polled: bool) -> TopicState:
    """The state of the topic that has the name now.

    The former topic is forgotten: its offsets, and the commits that are, or must be, its own. A
    commit without an id is the former topic's unless it came after the last sample of that topic:
    the coordinator takes the commits to a deleted topic back, each with a tombstone, before anybody
    can commit to the new one.

    Args:
        state: the state of the former topic, or of none.
        topic_id: the id of the topic.
        at: when it was first seen.
        polled: whether the commits are polled.
    """
    if state.id and not polled:
        state = _without_own_commits(state, state.at + 1 if state.at != UNKNOWN else at)
    return replace(
        TopicState.empty(),
        id=topic_id,
        commits=state.commits,
        uncounted_commits=state.uncounted_commits,
        planned_readers=state.planned_readers,
        last_tombstones=state.last_tombstones,
    )


def deleted(state: TopicState, at: int, *, polled: bool) -> TopicState:
    """The state after a topic's deletion at a time; `polled`: whether the commits are.

    Commits and plans that came later stay, even commits with the id of the deleted topic: the
    observer may only have lost sight of it for a while.
    """
    uncounted, commits = state.uncounted_commits, state.commits
    return replace(
        TopicState.empty(),
        commits=commits.take(_of_other_topics(state, commits) | (commits.at > at) | polled),
        uncounted_commits=uncounted.take(
            _of_other_topics(state, uncounted) | (uncounted.at > at) | polled
        ),
        planned_readers={
            group: since for group, since in state.planned_readers.items() if since > at
        },
        last_tombstones=state.last_tombstones,
    )


def _without_own_commits(state: TopicState, since: int) -> TopicState:
    """The state without the commits that belong to the topic itself.

    Commits to other topics of the name stay, and those without an id that came since a time.
    """
    uncounted, commits = state.uncounted_commits, state.commits
    if state.exact_cut and state.at != UNKNOWN:
        # A commit that no sample has counted came after the last one, whatever the clock of the
        # commit says.
        young_uncounted = np.ones(uncounted.at.size, np.bool_)
        young = np.zeros(commits.at.size, np.bool_)
    else:
        young_uncounted, young = uncounted.at >= since, commits.at >= since
    young_uncounted &= uncounted.topic_id < 0
    young &= commits.topic_id < 0
    return replace(
        state,
        commits=commits.take(_of_other_topics(state, commits) | young),
        uncounted_commits=uncounted.take(_of_other_topics(state, uncounted) | young_uncounted),
    )


def _of_other_topics(state: TopicState, commits: CommitColumns) -> Mask:
    """Mask of the commits that carry the id of another topic of this name."""
    return (commits.topic_id >= 0) & ~commits.of_topic(state.id)
