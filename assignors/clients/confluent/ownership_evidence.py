"""Evidence of ownership: entries of the journal, and tokens for stores downstream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from levelwind.assignors.boot_clock import boot_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
    from levelwind.assignors.protocol.partition_ranges import TopicPartition as Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipChange:
    """Entry of the journal: a partition was gained or released.

    A gain is written before the first record of the partition is fetched, a release after the
    partition was unassigned. So all consumers' entries together show whether a partition ever had
    two owners at once.
    """

    at: float
    """Seconds of the machine's boot clock, which all processes of a machine share."""
    event: Literal["gained", "released"]
    group: str
    instance: str
    incarnation: str
    topic: str
    partition: int


class FencingToken(NamedTuple):
    """Proof of ownership that a store downstream can compare: a later owner's `epoch` is higher.

    A store that keeps the highest epoch it has seen of each partition, and refuses writes with a
    lower one, is safe from a handler that outlives its lease.
    """

    group: str
    topic: str
    partition: int
    epoch: tuple[int, int]
    """(planner_epoch, member_epoch) of the record that granted the partition."""


class OwnershipJournal:
    """The application's journal of one consumer, if it keeps one."""

    def __init__(
        self, write: Callable[[OwnershipChange], object] | None, follower: AssignmentFollower
    ) -> None:
        """Call `write` with each entry, in the name of the follower's present life."""
        self._write = write
        self._follower = follower

    def gained(self, pairs: Iterable[Pair]) -> None:
        """Enter partitions that the consumer is about to read."""
        self._enter("gained", pairs)

    def released(self, pairs: Iterable[Pair]) -> None:
        """Enter partitions that the consumer has unassigned."""
        self._enter("released", pairs)

    def _enter(self, event: Literal["gained", "released"], pairs: Iterable[Pair]) -> None:
        if self._write is None:
            return
        profile = self._follower.profile
        for topic, number in sorted(pairs):
            self._write(
                OwnershipChange(
                    at=boot_seconds(),
                    event=event,
                    group=profile.group,
                    instance=profile.instance,
                    incarnation=self._follower.incarnation,
                    topic=topic,
                    partition=number,
                )
            )
