"""Decision log: the newest entries of the audit trail, as they are read, in a bounded memory.

Partitions are read side by side, so that the order of reading is not that of time: the oldest entry
by its own time makes room, in whatever order they come.

One thread adds records, another asks. What a plan was computed from is left out, since it may be
large; it stays in the topic.
"""

from __future__ import annotations

import threading
from bisect import insort
from itertools import islice
from typing import TYPE_CHECKING

from levelwind.assignors.protocol.records import ALL_GROUPS
from levelwind.daemon.decisions.encoding import BegunDecisions
from levelwind.daemon.shown_groups.group_documents import json_safe

if TYPE_CHECKING:
    from levelwind.assignors.protocol.records import DecisionPart

MOST_DECISIONS = 1_000
"""Decisions that are kept; older ones stay in the topic."""
MOST_BEGUN = 100
"""Decisions of which some parts were read; the oldest are given up."""


class DecisionLog:
    """The newest decisions; any thread may call the methods."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        self._most = most
        self._entries: dict[tuple[int, str, str], dict[str, object]] = {}
        # Time, id and group of each entry, the oldest first.
        self._by_time: list[tuple[int, str, str]] = []
        self._begun = BegunDecisions(MOST_BEGUN)
        self._lock = threading.Lock()

    def add(self, part: DecisionPart) -> None:
        """Take in the next part; the last one completes its decision."""
        entry = self._begun.add(part)
        if entry is None:
            return
        document = json_safe(entry.as_json())
        with self._lock:
            key = (entry.at, entry.id, entry.group)
            if key not in self._entries:
                insort(self._by_time, key)
            self._entries[key] = document
            if len(self._by_time) > self._most:
                del self._entries[self._by_time.pop(0)]

    def page(
        self, group: str | None = None, limit: int = 100, before: int | None = None
    ) -> list[dict[str, object]]:
        """Return the newest decisions, the newest first.

        Args:
            group: the group; orders about all groups are among its decisions. None: all groups.
            limit: the most decisions to return.
            before: only decisions before this time, in milliseconds since the epoch.
        """
        with self._lock:
            entries = [(key, self._entries[key]) for key in reversed(self._by_time)]
        wanted = None if group is None else {group, ALL_GROUPS}
        found = (
            document
            for (at, _, of_group), document in entries
            if (wanted is None or of_group in wanted) and (before is None or at < before)
        )
        return list(islice(found, limit))
