"""Marks in the topics: how far they have been read, of an end that was asked for at a moment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.topic_reader import ask_ends
from levelwind.daemon.service.leadership import ReadUntil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.daemon.config.settings import Settings
    from levelwind.daemon.control.boundary.control_events import Event
    from levelwind.daemon.kafka.topic_follower import TopicFollower
    from levelwind.daemon.service.leadership import LeadershipEvent
    from levelwind.daemon.service.mailbox import Mailbox
    from levelwind.daemon.service.record_intake import RecordIntake

ASK_SECONDS = 2.0
"""Limit of one question for the ends of the topics."""


class ReadMarks:
    """Questions for how far the topics have been read; the main thread calls all methods."""

    def __init__(
        self,
        settings: Settings,
        partitions: Mapping[str, int],
        follower: TopicFollower,
        intake: RecordIntake,
        mailbox: Mailbox[Event | LeadershipEvent | BaseException],
    ) -> None:
        self._config = settings.client()
        self._client = clients.admin(self._config)
        self._failed = False
        """Whether the last question had no answer."""
        self._follower = follower
        self._intake = intake
        self._mailbox = mailbox
        names = settings.topics
        self._signs = {name: partitions[name] for name in (names.members, names.assignments)}
        self._all = {names.name(kind): partitions[names.name(kind)] for kind in follower.kinds}

    def ask(self) -> None:
        """Ask for the ends of the topics that planners sign; a `ReadUntil` follows.

        Raises:
            ClusterUnavailableError: no answer in time.
        """
        asked_at = boot_seconds()
        reached = ReadUntil(asked_at=asked_at)
        self._when_read(self._signs, lambda: self._mailbox.put("read until", reached, last=True))

    def recover(self) -> None:
        """Read all topics to the ends that they have now; a `Recovered` follows, then each record.

        Raises:
            ClusterUnavailableError: no answer in time.
        """
        self._when_read(self._all, partial(self._intake.recover, boot_seconds()))

    def _when_read(self, counts: Mapping[str, int], call: Callable[[], None]) -> None:
        self._client.poll(0)  # delivers librdkafka's log lines
        if self._failed:
            # The client keeps the epochs of the leaders that it knows. After the next election the
            # brokers refuse them, and no refused question makes the client look: this does.
            clients.list_topics(self._client, self._config, ASK_SECONDS)
        self._failed = True
        ends = ask_ends(self._client, counts, ASK_SECONDS)
        self._failed = False
        self._follower.when_read(ends, call)
