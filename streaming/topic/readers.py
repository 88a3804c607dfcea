"""Groups that read a topic, and the rows that announce racks, or the end of reading, to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelwind.streaming.messages.buckets import group_key
from levelwind.streaming.messages.rows import Detached, Kind, RacksRow, Row
from levelwind.streaming.topic.commit_table import used

if TYPE_CHECKING:
    from collections.abc import Mapping

    from levelwind.streaming.topic.commit_table import CommitTable
    from levelwind.streaming.topic.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The groups that read a topic as of one state.

    They are those with a commit, and those whose plan covers the topic.
    """

    commits: CommitTable
    planned: Mapping[str, int]
    topic_id: str
    committed: frozenset[int]
    """The numbers of the groups with a commit that belongs, or may belong, to the topic."""
    names: Mapping[int, str]
    """The groups' names by their numbers, ascending."""

    @classmethod
    def of(cls, state: TopicState) -> Readers:
        """The readers as of a state; every planned reader has a number there."""
        commits, planned = state.commits, state.planned_readers
        by_plan = [n for n, name in enumerate(commits.groups) if name in planned] if planned else []
        groups = commits.group[commits.of_topic(state.id)] if state.id else commits.group
        committed = used([groups], len(commits.groups)).tolist()
        numbers = sorted({*committed, *by_plan}) if by_plan else committed
        return cls(
            commits=commits,
            planned=planned,
            topic_id=state.id,
            committed=frozenset(committed),
            names=dict(zip(numbers, map(commits.groups.__getitem__, numbers), strict=True)),
        )

    def valid_for(self, state: TopicState) -> bool:
        """Whether these are also the readers as of another state.

        Values of a state are replaced and never changed, so comparing identities is enough.
        """
        return (
            self.commits.code is state.commits.code
            and self.commits.topic_id is state.commits.topic_id
            and self.commits.groups is state.commits.groups
            and self.planned is state.planned_readers
            and self.topic_id == state.id
        )

    def left(self, after: Readers) -> list[int]:
        """The numbers of the groups that do not read the topic any more as of a later state."""
        return sorted(self.names.keys() - after.names.keys())

    def came(self, after: Readers) -> list[int]:
        """The numbers of the groups that are new, or have their first commit, as of a later state.

        For a group that read the topic by plan alone, its first commit is news.
        """
        return sorted((after.names.keys() - self.names.keys()) | (after.committed - self.committed))


def detached_row(topic: str, group: str, at: int, buckets: int) -> Row:
    """The row by which a group, in one of so many buckets, learns that it has left a topic."""
    payload = Detached(topic=topic, at=at).pack()
    return Row(group_key(group, buckets), group, Kind.DETACHED, payload)


def racks_row(
    topic: str, state: TopicState, readers: Readers, number: int, at: int, buckets: int
) -> Row:
    """The row by which a reader learns of a topic's racks.

    `at` is the time at which the group came to read the topic, or the racks changed, and `buckets`
    the number of buckets that the groups are in.
    """
    row = RacksRow(
        topic=topic,
        id=state.id,
        at=state.racks_at,
        notified_at=max(at, state.racks_at),
        racks=state.racks,
        source=dict([state.layout_position] if state.layout_position else []),
        committed=number in readers.committed,
    )
    group = readers.names[number]
    return Row(group_key(group, buckets), group, Kind.RACKS, row.pack())
