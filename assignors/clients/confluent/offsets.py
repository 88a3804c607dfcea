"""What a consumer has handed out, what of it is processed, and what of that is committed.

All in next offsets by partition. A commit whose outcome is unknown may arrive until `timers.commit` is over: until then
nobody may be told that its partition is free.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from assignors.clients.confluent.follower import (
    clock,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assignors.clients.confluent.settings import ClientSettings
    from assignors.handover.member_events import CommitOutcome
    from assignors.handover.timers import Timers
    from assignors.protocol.partition_ranges import TopicPartition as Pair

TAKEN = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.FENCED_INSTANCE_ID}
)
"""The group has members of the broker's own: a client that only assigns may not commit."""
DECIDED = TAKEN | {
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.OFFSET_METADATA_TOO_LARGE,
    KafkaError.INVALID_COMMIT_OFFSET_SIZE,
    KafkaError.INVALID_GROUP_ID,
}
"""The broker has answered, and the answer is no."""


class NotOwnedError(RuntimeError):
    """A commit, or the like, of a partition that the consumer does not own."""


class StraySubscriberError(RuntimeError):
    """Another consumer subscribes under the name of a managed group, which keeps this one from committing."""


class CommitTracker:
    """The offsets of one consumer; every method is called by the application's thread."""

    def __init__(
        self, settings: ClientSettings, *, timers: Timers, names: Callable[[], dict[str, object]]
    ) -> None:
        self.consumer: Any = None
        self.processed: dict[Pair, int] = {}
        self._handed_out: dict[Pair, int] = {}
        self._committed: dict[Pair, int] = {}
        self._settings = settings
        self._timers = timers
        self._names = names
        self._in_flight: list[dict[Pair, int]] = []
        """Asynchronous commits without an answer, oldest first."""
        self._doubtful_until = 0.0
        self._due_at = clock() + settings.commit_interval

    @property
    def quiet(self) -> bool:
        """Whether no commit can arrive any more."""
        return not self._in_flight and clock() >= self._doubtful_until

    def start(self, places: Iterable[Any]) -> None:
        """Partitions were granted, at their committed offsets."""
        for place in places:
            if place.offset >= 0 and (place.topic, place.partition) not in self.processed:
                self._committed[place.topic, place.partition] = place.offset

    def hand_out(self, messages: Iterable[Any]) -> None:
        """The application gets these."""
        for message in messages:
            if message.error() is None:
                self._handed_out[message.topic(), message.partition()] = message.offset() + 1

    def count_handed_out(self) -> None:
        """The application came back: what it got is processed, unless it says so itself."""
        if self._settings.auto_store and self._settings.auto_commit:
            self.processed.update(self._handed_out)
            self._handed_out.clear()

    def forget(self, partitions: Iterable[Pair]) -> None:
        """Partitions were given up."""
        for pair in partitions:
            for offsets in (self.processed, self._handed_out, self._committed):
                offsets.pop(pair, None)

    def wanted(self, message: Any, offsets: Iterable[Any] | None) -> dict[Pair, int]:
        """What a call of the application's means, as next offsets."""
        if message is not None:
            return {(message.topic(), message.partition()): message.offset() + 1}
        if offsets is not None:
            return {(place.topic, place.partition): place.offset for place in offsets}
        handed_out = self._handed_out if self._settings.auto_store else {}
        return self._news({**self.processed, **handed_out})

    def commit(self, wanted: dict[Pair, int], *, asynchronous: bool) -> list[Any] | None:
        """Commit for the application."""
        if not wanted:
            return None if asynchronous else []
        if asynchronous:
            self._send(wanted)
            return None
        try:
            return self._commit(wanted)
        except KafkaException as error:
            if error.args[0].code() in TAKEN:
                raise StraySubscriberError(self._stray()) from error
            raise

    def commit_in_time(self) -> None:
        """Commit what is processed, when it is time."""
        if not self._settings.auto_commit or clock() < self._due_at:
            return
        self._due_at = clock() + self._settings.commit_interval
        if not self._in_flight and (news := self._news(self.processed)):
            try:
                self._send(news)
            except KafkaException as error:
                self._complain(error.args[0])

    def decide(self, partitions: frozenset[Pair], serve: Callable[[], None]) -> CommitOutcome:
        """Commit what is processed of partitions that are given up, and say what became of all their commits."""
        patience = clock() + self._timers.commit / 4
        while self._in_flight and clock() < patience:
            serve()
        news = self._news({pair: at for pair, at in self.processed.items() if pair in partitions})
        if news and self._settings.auto_commit:
            try:
                self._commit(news)
            except KafkaException as error:
                code = error.args[0].code()
                self._complain(error.args[0])
                if code in DECIDED and self.quiet:
                    return "refused"
        return "committed" if self.quiet else "unknown"

    def answered(self, error: Any, places: list[Any]) -> None:
        """An asynchronous commit has its answer (called by confluent-kafka from within poll)."""
        # A synchronous commit is reported here too, so the answer must be told by its offsets.
        offsets = {(place.topic, place.partition): place.offset for place in places}
        if offsets in self._in_flight:
            self._in_flight.remove(offsets)
        error = error or _error_of(places)
        if error is None:
            self._note(places)
        else:
            self._doubt(error)
            self._complain(error)
        if self._settings.on_commit is not None:
            self._settings.on_commit(error, places)

    def _news(self, offsets: dict[Pair, int]) -> dict[Pair, int]:
        return {pair: at for pair, at in offsets.items() if self._committed.get(pair) != at}

    def _send(self, wanted: dict[Pair, int]) -> None:
        self.consumer.commit(offsets=_places(wanted), asynchronous=True)
        self._in_flight.append(wanted)

    def _commit(self, wanted: dict[Pair, int]) -> list[Any]:
        try:
            places: list[Any] = self.consumer.commit(offsets=_places(wanted), asynchronous=False)
            raise_error_of(places)
        except KafkaException as error:
            self._doubt(error.args[0])
            raise
        self._note(places)
        return places

    def _note(self, places: Iterable[Any]) -> None:
        self._committed.update({(place.topic, place.partition): place.offset for place in places})

    def _doubt(self, error: Any) -> None:
        if error.code() not in DECIDED:
            self._doubtful_until = clock() + self._timers.commit

    def _complain(self, error: Any) -> None:
        if error.code() in TAKEN:
            say(
                logging.ERROR,
                "member.commit_refused",
                **self._names(),
                error=error.str(),
                hint=self._stray(),
            )
        else:
            say(logging.WARNING, "member.commit_failed", **self._names(), error=error.str())

    def _stray(self) -> str:
        group = self._names()["group"]
        return (
            f"a consumer subscribes under the managed group {group!r}, so the broker takes no commits of its managed members: "
            f"stop it, or give it a group of its own (kafka-consumer-groups.sh --describe --members --group {group})"
        )


def raise_error_of(places: Iterable[Any]) -> None:
    """Raise what went wrong with the first of these partitions that has an error."""
    if (error := _error_of(places)) is not None:
        raise KafkaException(error)


def _error_of(places: Iterable[Any]) -> Any:
    return next((place.error for place in places if place.error is not None), None)


def _places(offsets: dict[Pair, int]) -> list[Any]:
    return [TopicPartition(topic, number, at) for (topic, number), at in sorted(offsets.items())]
