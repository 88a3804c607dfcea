"""Mirror of what groups have committed and who their members are, and what of it is unwritten.

Only what changed is written: an answer is compared with the one before, and after a start with what
the topic holds. What could not be written waits, and a newer value takes its place. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.partition_ranges import WireError
from levelwind.daemon.polling.polled_records import (
    CommitKey,
    Records,
    commit_key,
    commit_value,
    offset_in,
    read_key,
)
from levelwind.daemon.wire.poll_requests import PLAIN_PARTITION, committed_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.daemon.wire.poll_requests import FetchedGroup


@dataclass(slots=True)
class MirroredGroup:
    """What is known of a group, all of it in the topic or on its way there."""

    raw: Mapping[str, bytes] = field(default_factory=dict)
    """The last answer's partitions by topic; empty before the first one."""
    found: dict[tuple[str, int], int] = field(default_factory=dict)
    """Committed offsets in the topic at the start, by topic and partition, until the first
    answer."""
    members: Records = field(default_factory=dict)
    """Records about its members."""

    def offsets(self) -> dict[tuple[str, int], int]:
        """All committed offsets, by topic and partition."""
        return self.found | {
            (topic, number): offset
            for topic, raw in self.raw.items()
            for number, (offset, _) in committed_offsets(raw).items()
        }


class CommitMirror:
    """All groups, and the records that are to be written."""

    def __init__(self, found: Iterable[tuple[bytes | None, bytes | None]] = ()) -> None:
        """Begin with what the topic holds.

        Args:
            found: keys and values in log order; what was not written here is passed over.
        """
        self.unwritten: dict[bytes, bytes | None] = {}
        """Values by key, None for a tombstone: `written` takes them out."""
        self._groups: dict[str, MirroredGroup] = {}
        for key, value in found:
            self._recover(key, value)

    @property
    def groups(self) -> frozenset[str]:
        """Names of all groups of which anything is known."""
        return frozenset(self._groups)

    def known(self, group: str) -> Mapping[str, bytes]:
        """A group's partitions by topic, as the last answer had them."""
        found = self._groups.get(group)
        return {} if found is None else found.raw

    def partitions(self, group: str) -> int:
        """The number of partitions that a group has committed, or a little more."""
        return sum(map(len, self.known(group).values())) // PLAIN_PARTITION.size

    def commit(self, answer: FetchedGroup, at: int) -> bool:
        """Take what a group has committed; whether it is anything new.

        Args:
            answer: the answer of the group's coordinator, without an error.
            at: when it came, in milliseconds since the epoch.
        """
        group = self._groups.setdefault(answer.name, MirroredGroup())
        before = len(self.unwritten)
        first = not group.raw and bool(group.found)
        changed = False
        for topic in group.raw.keys() | answer.topics.keys() | {topic for topic, _ in group.found}:
            new = answer.topics.get(topic)
            if not first and new is not None and new is group.raw.get(topic):
                continue
            changed |= self._commit_topic(group, answer.name, topic, new, at)
        group.raw, group.found = dict(answer.topics), {}
        return changed or len(self.unwritten) > before

    def _commit_topic(
        self, group: MirroredGroup, name: str, topic: str, raw: bytes | None, at: int
    ) -> bool:
        old = {number: offset for (of, number), offset in group.found.items() if of == topic}
        if (last := group.raw.get(topic)) is not None:
            old |= {number: offset for number, (offset, _) in committed_offsets(last).items()}
        new = {} if raw is None else committed_offsets(raw)
        changed = False
        for number, (offset, epoch) in new.items():
            if old.pop(number, None) != offset:
                self.unwritten[commit_key(name, topic, number)] = commit_value(offset, epoch, at)
                changed = True
        for number in old:
            self.unwritten[commit_key(name, topic, number)] = None
            changed = True
        return changed

    def join(self, name: str, members: Records) -> bool:
        """Take the records about a group's members; whether they are anything new."""
        group = self._groups.setdefault(name, MirroredGroup())
        new = {key: value for key, value in members.items() if group.members.get(key) != value}
        gone = group.members.keys() - members.keys()
        self.unwritten |= new
        self.unwritten |= dict.fromkeys(gone)
        group.members = members
        return bool(new or gone)

    def end(self, name: str) -> None:
        """Take that a group does not exist any more."""
        group = self._groups.pop(name)
        keys = [commit_key(name, topic, number) for topic, number in group.offsets()]
        self.unwritten |= dict.fromkeys([*keys, *group.members])

    def written(self, records: Mapping[bytes, bytes | None]) -> None:
        """Take out what was written, or will never be."""
        for key, value in records.items():
            if key in self.unwritten and self.unwritten[key] == value:
                del self.unwritten[key]

    def _recover(self, key: bytes | None, value: bytes | None) -> None:
        try:
            _, name, commit = read_key(key or b"")
            offset = None if commit is None or value is None else offset_in(value)
        except WireError:
            return
        group = self._groups.setdefault(name, MirroredGroup())
        if isinstance(commit, CommitKey):
            if offset is None:
                group.found.pop((commit.topic, commit.partition), None)
            else:
                group.found[commit.topic, commit.partition] = offset
        elif key is not None:
            if value is None:
                group.members.pop(key, None)
            else:
                group.members[key] = value
        if not group.found and not group.members:
            del self._groups[name]
