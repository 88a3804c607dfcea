"""Topics that the patterns of members match, as topics come and go. Pure, and changed in place.

The control plans a member for what it names and for what its pattern matches. A pattern that cannot
be used matches nothing, and its member is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from levelwind.assignors.protocol.patterns.topic_pattern import KEPT_PATTERNS, finds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from levelwind.assignors.protocol.records import MemberRecord
    from levelwind.daemon.control.managed_group import ManagedGroup


class SubscribedPatterns:
    """Matching topics by pattern."""

    def __init__(self, excluded: frozenset[str] = frozenset()) -> None:
        """Let no pattern match the topics in `excluded`, levelwind's own."""
        self.excluded = excluded
        self._topics: dict[str, tuple[str, ...]] = {}

    def resolved(self, record: MemberRecord, topics: Iterable[str]) -> MemberRecord:
        """Return an announcement with the topics that its pattern matches among those it names.

        Args:
            record: the announcement.
            topics: all topics that are known.
        """
        if record.pattern is None:
            return record
        return replace(
            record, topics=_united(record.topics, self._matching(record.pattern, topics))
        )

    def rematched(self, group: ManagedGroup, topics: Iterable[str]) -> ManagedGroup:
        """Return a group after a topic came or went, with what its members read now."""
        if all(live.record.pattern is None for live in group.live.values()):
            return group
        live = {}
        for incarnation, member in group.live.items():
            record = member.record
            named = [
                name
                for name in record.topics
                if name in self.excluded or not finds(record.pattern, name)
            ]
            record = self.resolved(replace(record, topics=tuple(named)), topics)
            live[incarnation] = replace(member, record=record)
        return replace(group, live=live)

    def topic_changed(self, topic: str, *, exists: bool) -> None:
        """Take in that a topic came or went."""
        for pattern, matching in self._topics.items():
            if exists and finds(pattern, topic) and topic not in self.excluded:
                self._topics[pattern] = _united(matching, (topic,))
            elif not exists and topic in matching:
                self._topics[pattern] = tuple(name for name in matching if name != topic)

    def _matching(self, pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
        if pattern not in self._topics:
            if len(self._topics) == KEPT_PATTERNS:
                self._topics.clear()
            self._topics[pattern] = tuple(
                sorted(
                    name for name in topics if finds(pattern, name) and name not in self.excluded
                )
            )
        return self._topics[pattern]


def _united(names: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*names, *others}))
