"""Owned partitions of one consumer: carries out the follower's orders and keeps the journal."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from confluent_kafka import KafkaException, TopicPartition

from assignors.boot_clock import boot_seconds as clock
from assignors.clients.confluent.follower import log_event
from assignors.clients.confluent.offsets import NotOwnedError, raise_error_of
from assignors.handover import member_events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from assignors.clients.confluent.follower import AssignmentFollower
    from assignors.clients.confluent.offsets import CommitTracker
    from assignors.protocol.partition_ranges import TopicPartition as Pair

RETRY_SECONDS = 0.5
"""Time between two attempts to fetch committed offsets."""
FETCH_TIMEOUT_SECONDS = 3.0
SERVE_SECONDS = 0.02


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


class OwnedPartitions:
    """Partitions of one consumer, and the messages fetched but not yet handed out.

    Only the application's thread calls its methods.
    """

    def __init__(
        self,
        *,
        consumer: Any,
        follower: AssignmentFollower,
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

    def topic_partitions(self) -> list[Any]:
        """The owned partitions as confluent-kafka's `TopicPartition`, sorted."""
        return _as_topic_partitions(self.owned)

    def require_owned(self, pairs: Iterable[Pair]) -> None:
        """Raise `NotOwnedError` unless this consumer owns all of these partitions."""
        if self._follower.lost.is_set():
            raise NotOwnedError(
                "this member is lost, its partitions may have another owner: poll to join again"
            )
        if not_owned := sorted(set(pairs) - self.owned):
            shown = ", ".join(f"{topic}[{number}]" for topic, number in not_owned[:5])
            raise NotOwnedError(f"not owned by this consumer: {shown}; see assignment()")

    # Messages.

    def fetch(self, number: int, timeout: float) -> list[Any]:
        """Return up to `number` messages of any partition; buffered ones first."""
        if self._buffer:
            return [self._buffer.popleft() for _ in range(min(number, len(self._buffer)))]
        if number == 1:
            message = self._consumer.poll(timeout)
            return [] if message is None else [message]
        return list(self._consumer.consume(number, timeout))

    def still_owned(self, messages: Iterable[Any]) -> list[Any]:
        """The messages whose partition is still owned, and errors."""
        return [
            message
            for message in messages
            if message.error() is not None or (message.topic(), message.partition()) in self.owned
        ]

    def serve(self, timeout: float = SERVE_SECONDS) -> None:
        """Let librdkafka run its callbacks; a message that arrives is buffered."""
        message = self._consumer.poll(timeout)
        if message is not None:
            self._buffer.append(message)

    def drop_fetched(self, pair: Pair) -> None:
        """Drop the buffered messages of a partition that continues at another offset."""
        self._buffer = deque(
            message for message in self._buffer if (message.topic(), message.partition()) != pair
        )

    # Orders.

    def perform_orders(self) -> None:
        """Carry out the follower's orders, oldest first."""
        orders = self._follower.orders
        while orders:
            order = orders[0]
            # A loss voids the orders before it: only the loss itself is carried out.
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
        """Start partitions at the group's committed offsets; return False to try again later."""
        starts = self._start_offsets(partitions) if clock() >= self._retry_at else None
        if starts is None or self._follower.lost.is_set():
            return False
        self._follower.orders.popleft()
        self._journal_changes("gained", partitions)
        self.owned |= partitions
        self._commits.start(starts)
        self._consumer.incremental_assign(starts)
        # librdkafka remembers that the partition was paused when it was last given up.
        self._consumer.resume(starts)
        self._log(logging.INFO, "member.granted", partitions=len(starts), owned=len(self.owned))
        try:
            self._callbacks["assign"](starts)
        finally:
            self._follower.post(ev.GrantFinished())
        return True

    def _start_offsets(self, partitions: frozenset[Pair]) -> list[Any] | None:
        try:
            starts: list[Any] = self._consumer.committed(
                _as_topic_partitions(partitions), timeout=FETCH_TIMEOUT_SECONDS
            )
            raise_error_of(starts)
            if self._pins_latest:
                self._pin_latest([start for start in starts if start.offset < 0])
        except KafkaException as error:
            self._log(logging.WARNING, "member.grant_retried", error=error.args[0].str())
            self._retry_at = clock() + RETRY_SECONDS
            return None
        return starts

    def _pin_latest(self, starts: Iterable[Any]) -> None:
        # Without a commit, "latest" is another offset for each owner, and records that arrive
        # between two owners would be skipped.
        for start in starts:
            pair = (start.topic, start.partition)
            _, start.offset = self._consumer.get_watermark_offsets(
                TopicPartition(*pair), timeout=FETCH_TIMEOUT_SECONDS
            )
            self._commits.processed[pair] = start.offset

    def _revoke(self, partitions: frozenset[Pair]) -> None:
        started = clock()
        revoked = _as_topic_partitions(partitions)
        self._log(logging.INFO, "member.revoking", partitions=len(revoked))
        self._consumer.pause(revoked)
        try:
            self._callbacks["revoke"](revoked)
        finally:
            outcome = self._commits.finish(partitions, self.serve)
            self._release(partitions)
            self._follower.post(ev.RevokeFinished(outcome))
            took = round(clock() - started, 3)
            self._log(
                logging.INFO,
                "member.revoked",
                partitions=len(revoked),
                owned=len(self.owned),
                commit=outcome,
                seconds=took,
            )

    def _lose(self, reason: str) -> None:
        lost = frozenset(self.owned)
        self._log(logging.WARNING, "member.lost", reason=reason, partitions=len(lost))
        self._release(lost)
        try:
            if lost:
                self._callbacks["lost"](_as_topic_partitions(lost))
        finally:
            no_commit_in_flight = self._commits.no_commit_in_flight
            self._follower.lost.clear()
            self._follower.post(
                ev.LoseFinished(uuid4().hex, no_commit_in_flight=no_commit_in_flight)
            )

    def _release(self, partitions: frozenset[Pair]) -> None:
        self._consumer.incremental_unassign(_as_topic_partitions(partitions & self.owned))
        self.owned -= partitions
        self._buffer = deque(self.still_owned(self._buffer))
        self._commits.forget(partitions)
        self._journal_changes("released", partitions)

    def close(self) -> None:
        """Release what is still owned, after the consumer was closed."""
        self._journal_changes("released", self.owned)
        self.owned.clear()

    def _journal_changes(self, event: Literal["gained", "released"], pairs: Iterable[Pair]) -> None:
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
                    incarnation=self._follower.incarnation,
                    topic=topic,
                    partition=number,
                )
            )

    def _log(self, level: int, event: str, **fields: object) -> None:
        log_event(level, event, **self._follower.identity(), **fields)


def _as_topic_partitions(pairs: Iterable[Pair]) -> list[Any]:
    return [TopicPartition(topic, number) for topic, number in sorted(pairs)]
