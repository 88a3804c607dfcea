"""Input that the brokers have and the query does not read, asked of them beside Spark.

A query that does nothing may have nothing to read, or brokers that do not answer; it stands still
where they hand out its input to others. So, while it does no batch, another client asks for the
ends of all topics that the query reads or writes: no answer, or one that lacks a partition, blames
the brokers, and names the partition: Spark waits for it without a word, and with it every group.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from levelwind.daemon.errors import ClusterUnavailableError, LevelwindError
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.topic_reader import ask_ends
from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka.admin import AdminClient

    from levelwind.daemon.config.settings import Settings

log = Logger()

ASK_SECONDS = 3.0
"""Time between two questions while the query does no batch."""
ANSWER_SECONDS = 5.0
"""Longest wait for an answer."""
BELIEVED_SECONDS = 10.0
"""Time for which an answer shows that the brokers serve others."""
UNREAD_SECONDS = 3.0
"""Time, besides the interval of the batches, within which a query begins to read what came."""


FAILED_QUESTIONS = 2
"""Questions in a row without a whole answer that are an outage; one may meet an election."""
NAMED_PARTITIONS = 5
"""Most partitions without a leader that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSight:
    """The ends of the input as the brokers last told them, and what the query read. Pure.

    Times are monotonic seconds.
    """

    read: Mapping[tuple[str, int], int] | None = None
    """Offsets at which the last batch ended; None: not known yet."""
    asked: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """Ends of the input at the last answer."""
    answered_at: float | None = None
    """Time of the last answer since the last batch; None: there was none."""
    unread_since: float | None = None
    """Time of the first answer since the last batch by which there was unread input."""

    def after_batch(self, read: Mapping[tuple[str, int], int]) -> InputSight:
        """Return the sight after a batch that ended at these offsets."""
        return replace(self, read=read, answered_at=None, unread_since=None)

    def after_idle(self) -> InputSight:
        """Return the sight after the query found nothing to read."""
        return self.after_batch({**(self.read or {}), **self.asked})

    def after_answer(self, ends: Mapping[tuple[str, int], int], now: float) -> InputSight:
        """Return the sight after an answer of the brokers."""
        read, since = self.read, self.unread_since
        unread = read is not None and any(end > read.get(at, 0) for at, end in ends.items())
        return replace(
            self,
            asked=dict(ends),
            answered_at=now,
            unread_since=(now if since is None else since) if unread else None,
        )

    def serves(self, now: float) -> bool:
        """Whether the brokers serve others."""
        return self.answered_at is not None and now - self.answered_at <= BELIEVED_SECONDS

    def is_left_unread(self, now: float, interval: float) -> bool:
        """Whether input waits for longer than it takes a query that gets on to begin with it.

        Args:
            now: the time.
            interval: seconds between the begins of two batches at most.
        """
        since = self.unread_since
        return self.serves(now) and since is not None and now - since >= interval + UNREAD_SECONDS


class UnreadInput:
    """A thread that asks the brokers for the ends of the input while the query does no batch."""

    def __init__(self, settings: Settings, takes_records: Callable[[], bool]) -> None:
        """Prepare the thread.

        Args:
            settings: the settings of the daemon.
            takes_records: whether the brokers have taken a record of another client lately.
        """
        self._settings = settings
        self._takes_records = takes_records
        pipeline = settings.pipeline
        self._interval = max(pipeline.trigger_interval, pipeline.calm_interval)
        self._lock = threading.Lock()
        self._sight = InputSight()
        self._batches = 0
        self._failed = 0
        """Questions without a whole answer since the last one, or the last batch."""
        self._unserved: str | None = None
        """What has been missing in the last `FAILED_QUESTIONS` or more; None: nothing."""

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="unread-input", daemon=True).start()

    def on_batch(self, read: Mapping[tuple[str, int], int]) -> None:
        """Take the offsets at which a batch ended."""
        with self._lock:
            self._batches += 1
            self._sight = self._sight.after_batch(read)
            self._failed, self._unserved = 0, None

    def on_idle(self) -> None:
        """Take note that the query found nothing to read."""
        with self._lock:
            self._sight = self._sight.after_idle()

    def is_left_unread(self) -> bool:
        """Whether the query leaves input unread that the brokers hand out to others."""
        return self._sight.is_left_unread(time.monotonic(), self._interval)

    def unserved(self) -> str | None:
        """What the brokers do not serve, for which the query waits; None: nothing is known."""
        return self._unserved

    def are_brokers_serving(self) -> bool:
        """Whether, since the last batch, the brokers have answered others and taken a record."""
        return self._sight.serves(time.monotonic()) and self._takes_records()

    def _run(self) -> None:
        client = clients.admin(self._settings.client())
        batches = -1
        while True:
            if batches == self._batches:
                self._ask(client)
            batches = self._batches
            client.poll(0)
            time.sleep(ASK_SECONDS)

    def _ask(self, client: AdminClient) -> None:
        """Ask for the ends; an answer that a batch overtakes is dropped."""
        batches, topics = self._batches, self._settings.topics
        read = (self._settings.commits_topic, topics.metadata, topics.assignments, topics.replays)
        try:
            listed = clients.list_topics(client, self._settings.client(), ANSWER_SECONDS).topics
            partitions = {
                name: listed[name].partitions
                for name in (*read, topics.lag, topics.triggers, topics.dead_letters)
                if name in listed
            }
            if (leaderless := _leaderless(partitions)) is not None:
                raise ClusterUnavailableError(leaderless)
            counts = {name: len(of_topic) for name, of_topic in partitions.items()}
            ends = ask_ends(client, counts, ANSWER_SECONDS)
        except LevelwindError as error:
            log.debug("pipeline.trace", error=f"the ends of the input: {error}")
            self._on_failure(batches, str(error))
            return
        now = time.monotonic()
        of_input = {at: end for at, end in ends.items() if at[0] in read}
        with self._lock:
            if batches == self._batches:
                self._sight = self._sight.after_answer(of_input, now)
                self._failed, self._unserved = 0, None

    def _on_failure(self, batches: int, reason: str) -> None:
        """Note a question without a whole answer; log the outage with the second in a row."""
        with self._lock:
            if batches != self._batches:
                return
            self._failed += 1
            if self._failed < FAILED_QUESTIONS:
                return
            begins = self._unserved is None
            self._unserved = reason
        if begins:
            log.warning("pipeline.unserved", reason=reason)


def _leaderless(partitions: Mapping[str, Mapping[int, Any]]) -> str | None:
    """The partitions without a leader, in words; None: there is none.

    Args:
        partitions: the partitions of each topic as the client lists them, by number.
    """
    names = [
        f"{topic}/{number}"
        for topic, of_topic in partitions.items()
        for number, partition in sorted(of_topic.items())
        if partition.leader < 0
    ]
    if not names:
        return None
    more = len(names) - NAMED_PARTITIONS
    return f"no leader of {', '.join(names[:NAMED_PARTITIONS])}" + (
        f" and of {more} more" if more > 0 else ""
    )
