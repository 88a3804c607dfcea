"""Decision log: the newest entries of the audit trail, as they are read, in a bounded memory.

Partitions are read side by side, so that the order of reading is not that of time: the oldest entry
by its own time makes room, in whatever order they come.

One thread adds records, another asks. What a plan was computed from is left out, since it may be
large; it stays in the topic.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
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
EntryKey = tuple[int, str, str]
"""Time, id and group of a decision: their order is that of the log."""


class DecisionLog:
    """The newest decisions; any thread may call the methods."""

    def __init__(self, most: int = MOST_DECISIONS) -> None:
        self._most = most
        # The oldest first; each once.
        self._entries: list[tuple[EntryKey, dict[str, object]]] = []
        self._begun = BegunDecisions(MOST_BEGUN)
        self._lock = threading.Lock()

    def add(self, part: DecisionPart) -> None:
        """Take in the next part; the last one completes its decision."""
        entry = self._begun.add(part)
        if entry is None:
            return
        key = (entry.at, entry.id, entry.group)
        document = json_safe(entry.as_json())
        with self._lock:
            index = self._index(key)
            same = index < len(self._entries) and self._entries[index][0] == key
            self._entries[index : index + same] = [(key, document)]
            del self._entries[: -self._most]

    def page(
        self,
        group: str | None = None,
        limit: int = 100,
        before: int | None = None,
        *,
        before_id: str | None = None,
        outcome: str | None = None,
    ) -> list[dict[str, object]]:
        """Return the newest decisions, the newest first.

        Args:
            group: the group; orders about all groups are among its decisions. None: all groups.
            limit: the most decisions to return.
            before: only decisions before this time, in milliseconds since the epoch.
            before_id: also those at that very time that come behind the decision of this id. With
                time and id of the last entry of a page the next page begins right behind it.
            outcome: only decisions of this outcome; None: of any.
        """
        wanted = None if group is None else {group, ALL_GROUPS}
        with self._lock:
            end = len(self._entries)
            if before is not None:
                end = self._index((before,) if before_id is None else (before, before_id))
            entries = self._entries[:end]
        found = (
            document
            for (_, _, of_group), document in reversed(entries)
            if (wanted is None or of_group in wanted)
            and (outcome is None or document["outcome"] == outcome)
        )
        return list(islice(found, limit))

    def _index(self, key: tuple[int | str, ...]) -> int:
        """Return the index of the first entry that is not before a key, or the begin of one."""
        return bisect_left(self._entries, key, key=_key_of)


def _key_of(entry: tuple[EntryKey, object]) -> tuple[int | str, ...]:
    return entry[0]
