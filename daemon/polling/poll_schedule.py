"""Whom a round of questions is for: busy groups each time, quiet ones in turns. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from levelwind.daemon.wire.poll_requests import ListedGroup

QUIET_EVERY = 3
"""Rounds in which each group is asked at least once for its commits, and for its members."""
BUSY_ROUNDS = 5
"""Rounds after its last commit in which a group is asked each time."""
MOST_GROUPS = 100
"""The most groups of one request."""
MOST_PARTITIONS = 10_000
"""The most committed partitions of one request, beyond which it has one group."""
ABSENT_ROUNDS = 2
"""Whole rounds in a row without a group, after which it counts as gone: while a coordinator moves,
no broker lists its groups."""


@dataclass(slots=True)
class PollSchedule:
    """The rounds so far, by group."""

    number: int = 0
    """Number of the present round."""
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    """By group and what it was asked for, why it was not told last."""
    _moved: dict[str, int] = field(default_factory=dict)
    """Round of the last news of each group."""
    _states: dict[str, str] = field(default_factory=dict)
    """State of each group when its members were last asked for."""
    _absent: dict[str, int] = field(default_factory=dict)
    """Whole rounds in a row in which no broker listed the group."""

    def next_round(self) -> None:
        """Begin another round."""
        self.number += 1

    def asks_commits(self, group: str) -> bool:
        """Whether a group is asked for its commits in this round."""
        moved = self._moved.get(group)
        return moved is None or self.number - moved <= BUSY_ROUNDS or self._is_due(group)

    def asks_members(self, group: ListedGroup) -> bool:
        """Whether a group is asked for its members in this round."""
        return self._states.get(group.name) != group.state or self._is_due(group.name)

    def committed(self, group: str, *, news: bool) -> None:
        """Note an answer about a group's commits."""
        if news or group not in self._moved:
            self._moved[group] = self.number if news else self.number - BUSY_ROUNDS

    def described(self, group: ListedGroup) -> None:
        """Note an answer about a group's members."""
        self._states[group.name] = group.state

    @property
    def refused_groups(self) -> int:
        """The number of groups that were not told last."""
        return len({group for group, _ in self.refused})

    def ended(self, known: Iterable[str], listed: Iterable[str]) -> list[str]:
        """Take a whole round; return the known groups that have gone.

        Args:
            known: groups of which anything is known.
            listed: groups that the brokers have listed, each of which answered.
        """
        absent = {name: self._absent.get(name, 0) + 1 for name in {*known} - {*listed}}
        gone = sorted(name for name, rounds in absent.items() if rounds >= ABSENT_ROUNDS)
        for name in gone:
            del absent[name]
            self._moved.pop(name, None)
            self._states.pop(name, None)
        for asked in [asked for asked in self.refused if asked[0] in gone]:
            del self.refused[asked]
        self._absent = absent
        return gone

    def _is_due(self, group: str) -> bool:
        return crc32(group.encode()) % QUIET_EVERY == self.number % QUIET_EVERY


def requests_for(
    groups: Iterable[str], partitions_of: Callable[[str], int]
) -> Iterator[tuple[str, ...]]:
    """The groups in the parts that a request each may ask for.

    Args:
        groups: names of groups.
        partitions_of: the number of partitions that a group has committed, as far as known.
    """
    part: list[str] = []
    size = 0
    for group in groups:
        partitions = partitions_of(group)
        if part and (len(part) >= MOST_GROUPS or size + partitions > MOST_PARTITIONS):
            yield tuple(part)
            part, size = [], 0
        part.append(group)
        size += partitions
    if part:
        yield tuple(part)


def by_kind(groups: Iterable[ListedGroup]) -> Mapping[str, list[ListedGroup]]:
    """Groups by how their members are asked for: `classic`, `consumer`, or `none`."""
    found: dict[str, list[ListedGroup]] = {"classic": [], "consumer": [], "none": []}
    for group in groups:
        kind = group.type or "classic"
        found[kind if kind in found and group.protocol_type == "consumer" else "none"].append(group)
    return found
