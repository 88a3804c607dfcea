"""Offset tracking of one consumer: handed out, processed, committed.

All offsets are next offsets (of the record to be read next), by partition. A commit whose outcome
is unknown may still arrive until `timers.commit` has passed; until then the member must not
announce that it released the partition.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from assignors.boot_clock import boot_seconds as clock
from assignors.clients.confluent.follower import log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assignors.clients.confluent.settings import ClientSettings
    from assignors.handover.member_events import CommitOutcome
    from assignors.handover.timers import Timers
    from assignors.protocol.partition_ranges import TopicPartition as Pair

SUBSCRIBER_ERRORS = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.FENCED_INSTANCE_ID}
)
"""Errors of a commit while the group has subscribed members.

The broker then accepts no commits of clients that only assign partitions to themselves.
"""
REFUSED_ERRORS = SUBSCRIBER_ERRORS | {
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
    KafkaError.INVALID_COMMIT_OFFSET_SIZE,
    KafkaError.INVALID_GROUP_ID,
}
"""Errors with which the broker has refused a commit: the commit will not arrive later."""


class NotOwnedError(RuntimeError):
    """A commit, stored offset or seek of a partition that the consumer does not own.

    Also raised for every partition while the consumer is lost, until it polls again.
    """


class StraySubscriberError(RuntimeError):
    """A consumer subscribes under a managed group id, so the broker refuses managed commits.

    Stop that consumer, or give it a group id of its own.
    """


class CommitTracker:
    """Offsets of one consumer; only the application's thread calls its methods."""

    def __init__(
        self, settings: ClientSettings, *, timers: Timers, identity: Callable[[], dict[str, object]]
    ) -> None:
        self.consumer: Any = None
        """The application's consumer, set once it exists."""
        self.processed: dict[Pair, int] = {}
        """Offsets below which the application has processed everything."""
        self._handed_out: dict[Pair, int] = {}
        """Offsets behind the messages that the application got and may still work on."""
        self._committed: dict[Pair, int] = {}
        """Offsets of the last commits that the broker confirmed."""
        self._settings = settings
        self._timers = timers
        self._identity = identity
        self._in_flight: list[dict[Pair, int]] = []
        """Asynchronous commits that the broker has not answered, oldest first."""
        self._undecided_until = 0.0
        """Time until which a commit of unknown outcome may still arrive."""
        self._due_at = clock() + settings.commit_interval

    @property
    def no_commit_in_flight(self) -> bool:
        """Whether no commit of this consumer can arrive any more."""
        return not self._in_flight and clock() >= self._undecided_until

    def start(self, partitions: Iterable[Any]) -> None:
        """Take in granted partitions, with their committed offsets."""
        for pair, offset in _offsets_of(partitions).items():
            if offset >= 0 and pair not in self.processed:
                self._committed[pair] = offset

    def hand_out(self, messages: Iterable[Any]) -> None:
        """Note messages that the application gets."""
        for message in messages:
            if message.error() is None:
                self._handed_out[message.topic(), message.partition()] = message.offset() + 1

    def count_handed_out(self) -> None:
        """Count what was handed out as processed: the application asked for more.

        Does nothing when the application stores or commits offsets itself.
        """
        if self._settings.auto_store and self._settings.auto_commit:
            self.processed.update(self._handed_out)
            self._handed_out.clear()

    def forget(self, partitions: Iterable[Pair]) -> None:
        """Drop the offsets of partitions that were given up."""
        for pair in partitions:
            for offsets in (self.processed, self._handed_out, self._committed):
                offsets.pop(pair, None)

    def offsets_to_commit(self, message: Any, offsets: Iterable[Any] | None) -> dict[Pair, int]:
        """The next offsets that a call of the application's `commit` means."""
        if message is not None:
            return {(message.topic(), message.partition()): message.offset() + 1}
        if offsets is not None:
            return _offsets_of(offsets)
        handed_out = self._handed_out if self._settings.auto_store else {}
        return self._uncommitted({**self.processed, **handed_out})

    def commit(self, offsets: dict[Pair, int], *, asynchronous: bool) -> list[Any] | None:
        """Commit on the application's request; raises `StraySubscriberError`, `KafkaException`."""
        if not offsets:
            return None if asynchronous else []
        if asynchronous:
            self._send(offsets)
            return None
        try:
            return self._commit(offsets)
        except KafkaException as error:
            if error.args[0].code() in SUBSCRIBER_ERRORS:
                raise StraySubscriberError(self._stray_hint()) from error
            raise

    def commit_in_time(self) -> None:
        """Commit processed offsets when `auto.commit.interval.ms` has passed."""
        if not self._settings.auto_commit or clock() < self._due_at:
            return
        self._due_at = clock() + self._settings.commit_interval
        if not self._in_flight and (uncommitted := self._uncommitted(self.processed)):
            try:
                self._send(uncommitted)
            except KafkaException as error:
                self._log_failure(error.args[0])

    def finish(self, partitions: frozenset[Pair], serve: Callable[[], None]) -> CommitOutcome:
        """Commit the processed offsets of partitions that are given up.

        Waits up to a quarter of `timers.commit` for asynchronous commits and calls `serve`.

        Returns:
            The outcome of all commits of these partitions: "unknown" while one may still arrive.
        """
        give_up_at = clock() + self._timers.commit / 4
        while self._in_flight and clock() < give_up_at:
            serve()
        uncommitted = self._uncommitted(
            {pair: offset for pair, offset in self.processed.items() if pair in partitions}
        )
        if uncommitted and self._settings.auto_commit:
            try:
                self._commit(uncommitted)
            except KafkaException as error:
                code = error.args[0].code()
                self._log_failure(error.args[0])
                if code in REFUSED_ERRORS and self.no_commit_in_flight:
                    return "refused"
        return "committed" if self.no_commit_in_flight else "unknown"

    def on_answer(self, error: Any, partitions: list[Any]) -> None:
        """Take in the answer to a commit; confluent-kafka calls this from within poll."""
        # Synchronous commits are reported here too; their offsets tell the two kinds apart.
        offsets = _offsets_of(partitions)
        if offsets in self._in_flight:
            self._in_flight.remove(offsets)
        error = error or _error_of(partitions)
        if error is None:
            self._note_committed(partitions)
        else:
            self._note_outcome_of(error)
            self._log_failure(error)
        if self._settings.on_commit is not None:
            self._settings.on_commit(error, partitions)

    def _uncommitted(self, offsets: dict[Pair, int]) -> dict[Pair, int]:
        return {
            pair: offset for pair, offset in offsets.items() if self._committed.get(pair) != offset
        }

    def _send(self, offsets: dict[Pair, int]) -> None:
        self.consumer.commit(offsets=_as_topic_partitions(offsets), asynchronous=True)
        self._in_flight.append(offsets)

    def _commit(self, offsets: dict[Pair, int]) -> list[Any]:
        try:
            partitions: list[Any] = self.consumer.commit(
                offsets=_as_topic_partitions(offsets), asynchronous=False
            )
            raise_error_of(partitions)
        except KafkaException as error:
            self._note_outcome_of(error.args[0])
            raise
        self._note_committed(partitions)
        return partitions

    def _note_committed(self, partitions: Iterable[Any]) -> None:
        self._committed.update(_offsets_of(partitions))

    def _note_outcome_of(self, error: Any) -> None:
        if error.code() not in REFUSED_ERRORS:
            self._undecided_until = clock() + self._timers.commit

    def _log_failure(self, error: Any) -> None:
        if error.code() in SUBSCRIBER_ERRORS:
            log_event(
                logging.ERROR,
                "member.commit_refused",
                **self._identity(),
                error=error.str(),
                hint=self._stray_hint(),
            )
        else:
            log_event(
                logging.WARNING, "member.commit_failed", **self._identity(), error=error.str()
            )

    def _stray_hint(self) -> str:
        group = self._identity()["group"]
        return (
            f"a consumer subscribes under the managed group {group!r}, so the broker refuses the "
            "commits of the managed members: stop it, or give it a group of its own "
            f"(kafka-consumer-groups.sh --describe --members --group {group} shows it)"
        )


def raise_error_of(partitions: Iterable[Any]) -> None:
    """Raise `KafkaException` with the error of the first partition that has one."""
    if (error := _error_of(partitions)) is not None:
        raise KafkaException(error)


def _error_of(partitions: Iterable[Any]) -> Any:
    return next((partition.error for partition in partitions if partition.error is not None), None)


def _offsets_of(partitions: Iterable[Any]) -> dict[Pair, int]:
    return {(partition.topic, partition.partition): partition.offset for partition in partitions}


def _as_topic_partitions(offsets: dict[Pair, int]) -> list[Any]:
    return [
        TopicPartition(topic, number, offset) for (topic, number), offset in sorted(offsets.items())
    ]
