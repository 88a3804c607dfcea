"""Table of the groups, with an index of their deadlines. Pure, and changed in place.

A step replaces the state of the groups that its event concerns, and finds those with a deadline
that has passed, without looking at any other: its cost does not depend on how many groups exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.patterns.topic_pattern import finds
from levelwind.daemon.control.state.deadlines import (
    NEVER,
    NO_DEADLINES,
    ROUNDING_SECONDS,
    Deadlines,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from levelwind.assignors.protocol.records import MemberRecord
    from levelwind.daemon.control.managed_group import ManagedGroup
    from levelwind.daemon.control.members.members_clock import MembersClocks

Heap = list[tuple[float, int, str]]
"""Deadlines with the number and the name of their group, the earliest first."""


class GroupRow:
    """One group of the table."""

    __slots__ = ("entered", "group", "number", "partition")

    def __init__(self, group: ManagedGroup, number: int, partition: int) -> None:
        self.group = group
        self.number = number
        """Rank of the group by its entry into the table."""
        self.partition = partition
        """The group's partition of `levelwind.members`, by whose clocks two deadlines go."""
        self.entered = NO_DEADLINES
        """The deadlines that stand in the heaps, none of them later than the group's own."""


class GroupTable(Mapping[str, "ManagedGroup"]):
    """The managed groups by name, in the order of their entry.

    It is for the control's thread alone.
    """

    def __init__(self) -> None:
        self._rows: dict[str, GroupRow] = {}
        self._entries = 0
        self._now: Heap = []
        self._readable: defaultdict[int, Heap] = defaultdict(list)
        """By partition of `levelwind.members`."""
        self._read_until: defaultdict[int, Heap] = defaultdict(list)
        """By partition of `levelwind.members`."""
        self._readers: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Groups with a member that subscribed to a topic, by topic; it may have left since."""
        self._pattern_readers: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Groups with a member that subscribed by a pattern, by pattern; it may have left since."""

    def __getitem__(self, name: str) -> ManagedGroup:
        return self._rows[name].group

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, name: str, default: object = None) -> ManagedGroup | None:  # type: ignore[override]
        """Return the group of this name."""
        row = self._rows.get(name)
        return default if row is None else row.group  # type: ignore[return-value]

    def row(self, name: str) -> GroupRow | None:
        """Return the row of the group of this name."""
        return self._rows.get(name)

    def values(self) -> list[ManagedGroup]:  # type: ignore[override]
        """Return the groups that the table has at this moment."""
        return [row.group for row in self._rows.values()]

    # Changes.

    def put(self, group: ManagedGroup, deadlines: Deadlines, partition: int) -> None:
        """Enter the next state of a group, with its deadlines.

        Args:
            group: the group.
            deadlines: its deadlines.
            partition: its partition of `levelwind.members`.
        """
        row = self._rows.get(group.name)
        if row is None:
            self._entries += 1
            row = self._rows[group.name] = GroupRow(group, self._entries, partition)
        row.group = group
        self._enter(row, deadlines)

    def look_at(self, row: GroupRow, at: float) -> None:
        """Note a further deadline of a group, in boot seconds; its others stand."""
        if at < row.entered.now:
            self._enter(row, Deadlines(at, NEVER, NEVER))

    def drop(self, name: str) -> None:
        """Forget a group."""
        del self._rows[name]

    def subscribed(self, name: str, member: MemberRecord) -> None:
        """Note what a member of a group subscribes to."""
        for topic in member.topics:
            self._readers[topic][name] = None
        if member.pattern is not None:
            self._pattern_readers[member.pattern][name] = None

    # Queries.

    def readers(self, topic: str) -> list[ManagedGroup]:
        """Return the groups with a live member that subscribes to a topic, in their order."""
        names = {**self._readers.get(topic, {}), **self._reading_by_pattern(topic)}
        rows = [row for name in names if (row := self._rows.get(name))]
        reading = sorted((row for row in rows if row.group.reads(topic)), key=attrgetter("number"))
        if reading:
            self._readers[topic] = dict.fromkeys(row.group.name for row in reading)
        else:
            self._readers.pop(topic, None)
        return [row.group for row in reading]

    def _reading_by_pattern(self, topic: str) -> dict[str, None]:
        """Return the groups with a pattern that finds a topic, and forget patterns that ended."""
        names: dict[str, None] = {}
        for pattern in [pattern for pattern in self._pattern_readers if finds(pattern, topic)]:
            reading = {
                name: None
                for name in self._pattern_readers[pattern]
                if (row := self._rows.get(name)) and row.group.subscribes_by(pattern)
            }
            names.update(reading)
            if reading:
                self._pattern_readers[pattern] = reading
            else:
                del self._pattern_readers[pattern]
        return names

    def ordered(self, names: Iterable[str]) -> list[ManagedGroup]:
        """Return those of some groups that the table has, in their order."""
        rows = [row for name in names if (row := self._rows.get(name))]
        return [row.group for row in sorted(rows, key=attrgetter("number"))]

    def take_due(self, now: float, clocks: MembersClocks) -> list[ManagedGroup]:
        """Take out the groups with an entered deadline that has passed, in their order.

        A deadline that was put off meanwhile still stands as it was entered. Each of these groups
        must be put into the table again, with the deadlines that it has by then.

        Args:
            now: boot seconds.
            clocks: the clocks of the partitions of `levelwind.members`.
        """
        due: dict[str, GroupRow] = {}
        self._take(self._now, now, 0, due)
        for partition, clock in clocks.clocks.items():
            self._take(self._readable[partition], clock.readable, 1, due)
            self._take(self._read_until[partition], clock.read_until, 2, due)
        return [row.group for row in sorted(due.values(), key=attrgetter("number"))]

    # The heaps.

    def _enter(self, row: GroupRow, deadlines: Deadlines) -> None:
        """Enter those deadlines into the heaps that are earlier than what stands in them."""
        entered = row.entered
        number, name = row.number, row.group.name
        if deadlines.now < entered.now:
            heappush(self._now, (deadlines.now, number, name))
            entered = entered._replace(now=deadlines.now)
        if deadlines.readable < entered.readable:
            heappush(self._readable[row.partition], (deadlines.readable, number, name))
            entered = entered._replace(readable=deadlines.readable)
        if deadlines.read_until < entered.read_until:
            heappush(self._read_until[row.partition], (deadlines.read_until, number, name))
            entered = entered._replace(read_until=deadlines.read_until)
        row.entered = entered

    def _take(self, heap: Heap, clock: float, which: int, due: dict[str, GroupRow]) -> None:
        """Take the deadlines of one kind that have passed on their clock."""
        while heap and heap[0][0] <= clock + ROUNDING_SECONDS:
            at, number, name = heappop(heap)
            row = self._rows.get(name)
            # A group that was forgotten may be back, and an earlier deadline was entered later.
            if row is None or row.number != number or row.entered[which] != at:
                continue
            standing = list(row.entered)
            standing[which] = NEVER
            row.entered = Deadlines(*standing)
            due[name] = row
