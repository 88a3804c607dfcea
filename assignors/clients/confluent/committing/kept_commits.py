"""Commits that are made again before the brokers forget them.

A managed group has no members for its brokers, so the commits of its partitions expire one by one,
each `offsets.retention.minutes` after it was made, while its consumers live (KAFKA-4682): a
partition without records would begin anew after the next restart. A group that subscribes keeps
them. A transactional id without transactions expires as well (`transactional.id.expiration.ms`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from levelwind.assignors.boot_clock import boot_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair

FIRST_SECONDS = 60.0
"""Time after a grant until its commit is made again, and between two attempts: the commit may be as
old as the brokers let it become, and a group that restarts often never gets beyond this time."""
LOOK_SECONDS = 5.0
"""Longest time between two looks for commits that are due."""


@dataclass(slots=True)
class _Kept:
    offset: int
    metadata: str
    due_at: float


class KeptCommits:
    """The last commit of each owned partition, and when it is made again."""

    def __init__(self, every: float) -> None:
        """Keep commits by making each again after `every` seconds."""
        self._every = every
        self._kept: dict[Pair, _Kept] = {}
        self.look_at = boot_seconds()
        """Boot time from which a look at `due` may find something."""

    def found(self, partitions: Iterable[Any]) -> None:
        """Take in the commits with which grants begin, as confluent-kafka's `TopicPartition`."""
        self._keep(partitions, min(self._every, FIRST_SECONDS))

    def made(self, partitions: Iterable[Any]) -> None:
        """Take in commits that the brokers confirmed, as confluent-kafka's `TopicPartition`."""
        self._keep(partitions, self._every)

    def _keep(self, partitions: Iterable[Any], seconds: float) -> None:
        due_at = boot_seconds() + seconds
        for each in partitions:
            if each.offset >= 0:
                pair = (each.topic, each.partition)
                self._kept[pair] = _Kept(each.offset, each.metadata or "", due_at)

    def sent(self, offsets: Mapping[Pair, int]) -> None:
        """Take in commits that are sent: until one is confirmed, what came before is not kept.

        A commit may be carried out though nobody confirms it; the one before would put it back.
        """
        for pair, offset in offsets.items():
            if pair in self._kept and self._kept[pair].offset != offset:
                del self._kept[pair]

    def forget(self, pair: Pair) -> None:
        """Leave a partition's commit to its next owner."""
        self._kept.pop(pair, None)

    def due(self) -> tuple[dict[Pair, int], Mapping[Pair, str]]:
        """Offsets to commit again, with their metadata; they count as tried."""
        now = boot_seconds()
        self.look_at = now + min(self._every / 4, LOOK_SECONDS)
        offsets: dict[Pair, int] = {}
        metadata: dict[Pair, str] = {}
        for pair, kept in self._kept.items():
            if kept.due_at <= now:
                kept.due_at = now + min(self._every, FIRST_SECONDS)
                offsets[pair] = kept.offset
                if kept.metadata:
                    metadata[pair] = kept.metadata
        return offsets, metadata
