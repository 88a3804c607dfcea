"""What keeps a member from its work, said in the log: rights, other consumers, failing requests."""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.committing.commit_errors import (
    SUBSCRIBER_ERRORS,
    stray_hint,
)
from levelwind.assignors.clients.confluent.event_log import Reminders, log_event
from levelwind.assignors.clients.confluent.following import subscribers
from levelwind.assignors.clients.confluent.rights import RIGHT_HINT, missing_right

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import ThrottleEvent

    from levelwind.assignors.protocol.topics import Topics

REMINDER_SECONDS = 15.0
"""Longest time between two log lines about the same wait."""
THROTTLED_SECONDS = 600.0
"""Shortest time between two log lines about client quotas: a quota may be there to be used up."""
QUESTION_SECONDS = 5.0
"""Time-out of each question for a group's members."""


class Obstacles:
    """Log of one member's obstacles, each repeated only after a while; any thread may call it."""

    def __init__(
        self,
        *,
        group: str,
        topics: Topics,
        heartbeat: float,
        identity: Callable[[], Mapping[str, object]],
        admin: Any,
    ) -> None:
        """Speak in the name of `identity()`; `admin` asks the brokers."""
        self._admin = admin
        self._group = group
        self._topics = topics
        self._identity = identity
        interval = min(REMINDER_SECONDS, 5 * heartbeat)
        self._reminders = Reminders(identity, interval, first_after=interval)
        self._failures = Reminders(identity, interval, first_after=0.0)
        self._throttles = Reminders(identity, THROTTLED_SECONDS, first_after=0.0)
        self._asked_at = float("-inf")

    def throttled(self, event: ThrottleEvent) -> None:
        """Log that a broker delays its answers, since a client quota is used up."""
        if event.throttle_time > 0:  # else a delay has ended
            self._throttles.log(
                logging.WARNING,
                "member.throttled",
                broker=event.broker_id,
                seconds=round(event.throttle_time, 3),
            )

    def waits(self, event: str, **fields: object) -> None:
        """Log a wait that has lasted for a while."""
        self._reminders.log(logging.WARNING, event, **fields)

    def lacks(self, right: str) -> None:
        """Log a right that the member lacks."""
        self._reminders.log(logging.ERROR, "member.not_authorized", missing=right, hint=RIGHT_HINT)

    def read_failed(self, error: Any) -> None:
        """Log that reading assignments failed by a `KafkaError`."""
        right = missing_right(error, topic=self._topics.assignments, group=self._group)
        self._failed("member.read_failed", error.str(), right)

    def fetch_failed(self, message: Any) -> None:
        """Log the right for want of which records were not fetched; the application gets errors."""
        topic = message.topic() or "that it reads"
        if right := missing_right(message.error(), topic=topic, group=self._group):
            self.lacks(right)

    def announcement_failed(self, error: Any) -> None:
        """Log that an announcement failed by a `KafkaError`, or for a reason in words."""
        if isinstance(error, str):
            self._failed("member.announce_failed", error, None)
        else:
            right = missing_right(error, topic=self._topics.members, operation="WRITE")
            self._failed("member.announce_failed", error.str(), right)

    def commit_failed(self, error: Any) -> None:
        """Log that a commit failed by a `KafkaError`."""
        right = missing_right(error, topic="that it reads", group=self._group)
        if right is not None:
            self.lacks(right)
        elif error.code() in SUBSCRIBER_ERRORS:
            hint = stray_hint(self._group)
            self._failures.log(logging.ERROR, "member.commit_refused", error=error.str(), hint=hint)
            self.look_for_subscribers()
        else:
            self._failures.log(logging.WARNING, "member.commit_failed", error=error.str())

    def grant_retried(self, error: Any, topics: str) -> None:
        """Log that committed offsets of some topics could not be read, by a `KafkaError`."""
        right = missing_right(error, topic=topics, group=self._group)
        if right is None:
            self._failures.log(
                logging.WARNING, "member.grant_retried", topics=topics, error=error.str()
            )
        else:
            self.lacks(right)

    def look_for_subscribers(self) -> None:
        """Ask who subscribes under the group's name; whoever does is logged as an error."""
        now = boot_seconds()
        if now - self._asked_at < REMINDER_SECONDS:
            return
        # Nothing waits for the answer: neither the member's thread nor the end of its process.
        asking = Thread(target=self._name_subscribers, name="levelwind-subscribers", daemon=True)
        with suppress(RuntimeError):  # the system gives no thread, and the next call asks for one
            asking.start()
            self._asked_at = now

    def _name_subscribers(self) -> None:
        with suppress(KafkaException):  # a question about what is wrong must not add to it
            if found := subscribers.found(self._admin, self._group, QUESTION_SECONDS):
                log_event(
                    logging.ERROR,
                    "member.stray_subscriber",
                    **self._identity(),
                    subscribers="; ".join(found),
                    hint=stray_hint(self._group),
                )

    def _failed(self, event: str, reason: str, right: str | None) -> None:
        if right is None:
            self.waits(event, error=reason)
        else:
            self.lacks(right)
