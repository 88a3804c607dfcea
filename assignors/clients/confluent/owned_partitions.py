"""What a consumer owns: performs the follower's orders on it, in the application's thread, and keeps a journal."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from confluent_kafka import KafkaException, TopicPartition

from assignors.clients.confluent.follower import (
    clock,
    say,
)
from assignors.clients.confluent.offsets import (
    NotOwnedError,
    raise_error_of,
)
from assignors.handover import member_events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from assignors.clients.confluent.follower import Follower
    from assignors.clients.confluent.offsets import CommitTracker
    from assignors.protocol.partition_ranges import TopicPartition as Pair

RETRY = 0.5
"""Between two attempts to fetch committed offsets."""
FETCH_TIMEOUT = 3.0
SERVE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipChange:
    """A line of the journal: written before the first record of a partition is asked for, and after it was let go.

    `at` is in seconds of the machine's boot clock, the same for all processes of a machine.
    """

    at: float
    event: Literal["gained", "released"]
    group: str
    instance: str
    incarnation: str
    topic: str
    partition: int


class Possession:
    """The partitions of one consumer, and the records that it fetched but did not hand out yet."""

    def __init__(
        self,
        *,
        consumer: Any,
        follower: Follower,
        commits: CommitTracker,
        pins_latest: bool,
        callbacks: Mapping[str, Callable[[list[Any]], object]],
        journal: Callable[[OwnershipChange], object] | None,
    ) -> None:
        self.owned: set[Pair] = set()
        self._consumer = consumer
        self._follower = follower
        self._commits = commits
        self._pins_latest = pins_latest
        self._callbacks = callbacks
        self._journal = journal
        self._buffer: deque[Any] = deque()
        self._retry_at = 0.0

    def places(self) -> list[Any]:
        """What is owned, as confluent-kafka says it."""
        return _places(self.owned)

    def refuse_others(self, pairs: Iterable[Pair]) -> None:
        """Raise `NotOwnedError` unless all of these are owned."""
        if self._follower.lost.is_set():
            raise NotOwnedError(
                "this member is lost: its partitions may be another's; poll to join anew"
            )
        if strange := sorted(set(pairs) - self.owned):
            shown = ", ".join(f"{topic}[{number}]" for topic, number in strange[:5])
            raise NotOwnedError(f"not owned by this consumer: {shown}; see assignment()")

    # Records.

    def fetch(self, number: int, timeout: float) -> list[Any]:
        """Up to so many records, of whatever partition."""
        if self._buffer:
            return [self._buffer.popleft() for _ in range(min(number, len(self._buffer)))]
        if number == 1:
            message = self._consumer.poll(timeout)
            return [] if message is None else [message]
        return list(self._consumer.consume(number, timeout))

    def ours(self, messages: Iterable[Any]) -> list[Any]:
        """Those that may still be handed out."""
        return [
            m for m in messages if m.error() is not None or (m.topic(), m.partition()) in self.owned
        ]

    def serve(self, timeout: float = SERVE) -> None:
        """Let the client work on its answers; a record that comes by is kept."""
        message = self._consumer.poll(timeout)
        if message is not None:
            self._buffer.append(message)

    def drop_fetched(self, pair: Pair) -> None:
        """Forget what was fetched of a partition: it goes on elsewhere."""
        self._buffer = deque(m for m in self._buffer if (m.topic(), m.partition()) != pair)

    # Orders.

    def perform_orders(self) -> None:
        """Do what the member's state asks for, oldest first."""
        orders = self._follower.orders
        while orders:
            order = orders[0]
            # What was ordered before a loss is void: only the loss is performed.
            if self._follower.lost.is_set() and not isinstance(order, ev.Lose):
                orders.popleft()
                continue
            match order:
                case ev.Grant():
                    if not self._grant(order.partitions):
                        return
                case ev.Revoke():
                    orders.popleft()
                    self._revoke(order.partitions)
                case ev.Lose():
                    orders.popleft()
                    self._lose(order.reason)

    def _grant(self, partitions: frozenset[Pair]) -> bool:
        """Start on partitions where the group's commits stand now; False: try again later."""
        places = self._starts(partitions) if clock() >= self._retry_at else None
        if places is None or self._follower.lost.is_set():
            return False
        self._follower.orders.popleft()
        self._write("gained", partitions)
        self.owned |= partitions
        self._commits.start(places)
        self._consumer.incremental_assign(places)
        # librdkafka remembers that a partition was paused when it was last given up.
        self._consumer.resume(places)
        self._say(logging.INFO, "member.granted", partitions=len(places), owned=len(self.owned))
        try:
            self._callbacks["assign"](places)
        finally:
            self._follower.post(ev.GrantFinished())
        return True

    def _starts(self, partitions: frozenset[Pair]) -> list[Any] | None:
        try:
            places: list[Any] = self._consumer.committed(_places(partitions), timeout=FETCH_TIMEOUT)
            raise_error_of(places)
            if self._pins_latest:
                self._pin([place for place in places if place.offset < 0])
        except KafkaException as error:
            self._say(logging.WARNING, "member.grant_retried", error=error.args[0].str())
            self._retry_at = clock() + RETRY
            return None
        return places

    def _pin(self, places: Iterable[Any]) -> None:
        # Without a commit "latest" would mean another offset to each owner, and what came between two would be skipped.
        for place in places:
            pair = (place.topic, place.partition)
            _, place.offset = self._consumer.get_watermark_offsets(
                TopicPartition(*pair), timeout=FETCH_TIMEOUT
            )
            self._commits.processed[pair] = place.offset

    def _revoke(self, partitions: frozenset[Pair]) -> None:
        started = clock()
        places = _places(partitions)
        self._say(logging.INFO, "member.revoking", partitions=len(places))
        self._consumer.pause(places)
        try:
            self._callbacks["revoke"](places)
        finally:
            outcome = self._commits.decide(partitions, self.serve)
            self._let_go(partitions)
            self._follower.post(ev.RevokeFinished(outcome))
            took = round(clock() - started, 3)
            self._say(
                logging.INFO,
                "member.revoked",
                partitions=len(places),
                owned=len(self.owned),
                commit=outcome,
                seconds=took,
            )

    def _lose(self, reason: str) -> None:
        lost = frozenset(self.owned)
        self._say(logging.WARNING, "member.lost", reason=reason, partitions=len(lost))
        self._let_go(lost)
        try:
            if lost:
                self._callbacks["lost"](_places(lost))
        finally:
            quiet = self._commits.quiet
            self._follower.lost.clear()
            self._follower.post(ev.LoseFinished(uuid4().hex, quiet=quiet))

    def _let_go(self, partitions: frozenset[Pair]) -> None:
        self._consumer.incremental_unassign(_places(partitions & self.owned))
        self.owned -= partitions
        self._buffer = deque(self.ours(self._buffer))
        self._commits.forget(partitions)
        self._write("released", partitions)

    def end(self) -> None:
        """The consumer is closed: whatever it still owned is nobody's here any more."""
        self._write("released", self.owned)
        self.owned.clear()

    def _write(self, event: Literal["gained", "released"], pairs: Iterable[Pair]) -> None:
        if self._journal is None:
            return
        profile = self._follower.profile
        for topic, number in sorted(pairs):
            self._journal(
                OwnershipChange(
                    at=clock(),
                    event=event,
                    group=profile.group,
                    instance=profile.instance,
                    incarnation=self._follower.name_of_life,
                    topic=topic,
                    partition=number,
                )
            )

    def _say(self, level: int, event: str, **fields: object) -> None:
        say(level, event, **self._follower.names(), **fields)


def _places(pairs: Iterable[Pair]) -> list[Any]:
    return [TopicPartition(topic, number) for topic, number in sorted(pairs)]
