"""Deletion of a topic, and its creation again under its name: the commits that outlive it.

The observer says of a topic that is deleted, and of one that it does not see any more, the same. So
the commits stay until their tombstones, which the coordinator writes when a topic is deleted, and
the plans for as long as they count. Where the same topic comes back, nothing is lost: a group that
has stopped, or reads a partition without new records, commits nothing that could bring its commit
back, and one whose members stay writes no other record of them.

Polled commits stay where another topic has the name, too. Who asks for commits now and then sees
nothing new where a group has committed to the new topic the offset that it had committed to the
former one; where the commit is gone, a tombstone follows within the interval of polling.

Pure functions of the topic's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from levelwind.streaming.rules.event_time import UNKNOWN, agreed_time
from levelwind.streaming.topic.commit_columns import UncountedCommits
from levelwind.streaming.topic.commit_table import CommitTable
from levelwind.streaming.topic.sampling import counted
from levelwind.streaming.topic.state import READER_TTL_MS, TopicState

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
    planned = state.planned_readers
    if state.gone:  # a member that reads the new topic joins again
        planned = {group: since for group, since in planned.items() if since > state.at}
    return replace(
        TopicState.empty(),
        id=topic_id,
        commits=state.commits,
        uncounted_commits=state.uncounted_commits,
        planned_readers=planned,
        last_tombstones=state.last_tombstones,
    )


def deleted(state: TopicState, at: int) -> TopicState:
    """The state after the observer ceased to see a topic at a time; see `TopicState.gone`.

    Its commits and plans stay, and its id, by which it is known if it comes back. What was sampled
    is forgotten.
    """
    if not state.id:
        return state
    return replace(
        TopicState.empty(),
        id=state.id,
        at=max(state.at, at),
        # Without a sample nothing but their times tells old commits from young ones.
        exact_cut=state.exact_cut and state.at != UNKNOWN,
        commits=state.commits,
        uncounted_commits=state.uncounted_commits,
        planned_readers=state.planned_readers,
        last_tombstones=state.last_tombstones,
    )


def returned(state: TopicState) -> TopicState:
    """The state of a topic that was gone, and that the observer sees again under its id."""
    return replace(state, at=UNKNOWN, exact_cut=True)


def without_ended_commits(state: TopicState) -> TopicState:
    """The state of a topic that is gone without its own commits, if they have ended.

    They end with their tombstones. Some may never come: compaction removes them while no pipeline
    reads. So the topic is taken for deleted once it has been gone for `READER_TTL_MS`, for which
    brokers keep the offsets of an empty group, by the newest records of two groups. Commits that
    came later stay: there a group commits to a topic that exists, and that the observer does not
    see.
    """
    if agreed_time(_newest_by_group(state)) - state.at < READER_TTL_MS:
        if counted(state).commits.code.size:
            return state
        return replace(
            state, commits=CommitTable.empty(), uncounted_commits=UncountedCommits.empty()
        )
    uncounted, commits = state.uncounted_commits, state.commits
    return replace(
        state,
        id="",
        at=UNKNOWN,
        exact_cut=True,
        commits=commits.take(_of_other_topics(state, commits) | (commits.at > state.at)),
        uncounted_commits=uncounted.take(
            _of_other_topics(state, uncounted) | (uncounted.at > state.at)
        ),
    )


def _newest_by_group(state: TopicState) -> list[int]:
    """The time of the newest commit or plan of each group that a state names."""
    groups = state.commits.groups
    newest = np.array([state.planned_readers.get(group, UNKNOWN) for group in groups], np.int64)
    for commits in (state.commits, state.uncounted_commits):
        np.maximum.at(newest, commits.group, commits.at)
    return [int(at) for at in newest]


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
