"""Reader of a group's assignments: a thread that reads them, and asks how far they reach.

What it reads goes into the mailbox of the member's thread, in the order of the log. Nothing here
waits for the member, so a busy member delays no fetch.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.rights import MissingRightError, missing_right
from levelwind.assignors.protocol.topics import partition_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from levelwind.assignors.clients.confluent.settings import ClientSettings
    from levelwind.assignors.protocol.topics import Topics

POLL_SECONDS = 0.5
"""Longest time that the thread waits for a record before it asks whether to stop."""
METADATA_TIMEOUT_SECONDS = 5.0


class MissingTopicsError(RuntimeError):
    """Topics of levelwind that do not exist; the arguments are their names."""


class RecordRead(NamedTuple):
    """A record or an error that the reader got."""

    message: Any


class EndReached(NamedTuple):
    """The reader has read everything below this offset, transaction markers included."""

    offset: int


class StableOffsetAnswered(NamedTuple):
    """Answer to a question for the last stable offset."""

    asked_at: float
    """Time before the question was sent, on the boot clock."""
    read_to: int
    """Offset below which everything was read at that time."""
    stable_offset: int


class ReaderFailed(NamedTuple):
    """The thread died of a bug."""

    error: Exception


class AssignmentsReader(Thread):
    """Reads one partition of `levelwind.assignments`; `place` comes before `start`."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        topics: Topics,
        group: str,
        post: Callable[[RecordRead | EndReached | StableOffsetAnswered | ReaderFailed], None],
    ) -> None:
        super().__init__(name=f"levelwind-assignments-{group}", daemon=True)
        self._topics = topics
        self._group = group
        self._post = post
        self._stopping = Flag()
        self._consumer: Any = Consumer(settings.reader)
        self.admin: Any = AdminClient(settings.admin)
        """Client of questions to the brokers."""
        self._question_seconds = settings.question_timeout
        self._position: Any = None

    def place(self) -> tuple[int, int]:
        """Put the reader behind the newest assignment: older ones are about earlier lives.

        Returns:
            The group's partition of `levelwind.members`, and the offset where reading starts.

        Raises:
            MissingTopicsError: levelwind's topics do not exist.
            MissingRightError: The consumer may not see one of them.
            KafkaException: The brokers did not answer.
        """
        members, assignments = self._topics.members, self._topics.assignments
        rights = {members: "WRITE", assignments: "READ"}
        counts = {name: self._partition_count(name, right) for name, right in rights.items()}
        if missing := [name for name, count in counts.items() if not count]:
            raise MissingTopicsError(*missing)
        position = TopicPartition(assignments, partition_for(self._group, counts[assignments]))
        _, position.offset = self._consumer.get_watermark_offsets(
            position, timeout=METADATA_TIMEOUT_SECONDS
        )
        self._consumer.assign([position])
        self._position = position
        return partition_for(self._group, counts[members]), position.offset

    def run(self) -> None:
        """Read until `stop`; the body of the thread."""
        try:
            while not self._stopping.is_set():
                message = self._consumer.poll(POLL_SECONDS)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    self._post(EndReached(message.offset()))
                else:
                    self._post(RecordRead(message))
        except Exception as error:  # noqa: BLE001 - raised again in the application's thread
            self._post(ReaderFailed(error))

    def ask(self, read_to: int) -> None:
        """Ask for the partition's last stable offset; the answer comes as a message.

        A question that fails has no answer: the next one may.
        """
        asked_at = boot_seconds()
        partition = TopicPartition(self._position.topic, self._position.partition)

        def take(answer: Future[Any]) -> None:
            if answer.cancelled():
                return
            # A negative offset is the answer for a leader that is silent.
            if answer.exception() is not None or (end := answer.result().offset) < 0:
                self._renew_leaders()
                return
            self._post(StableOffsetAnswered(asked_at, read_to, end))

        answers = self.admin.list_offsets(
            {partition: OffsetSpec.latest()},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._question_seconds,
        )
        for answer in answers.values():
            answer.add_done_callback(take)

    def _renew_leaders(self) -> None:
        """Read the partition's leader anew, in the thread of the client's answers.

        The client keeps the epoch of the leader that it knows. After the next election the brokers
        refuse that epoch, and an answer to this kind of question does not make the client look.
        """
        with suppress(KafkaException):
            self.admin.list_topics(self._position.topic, timeout=self._question_seconds)

    def stop(self) -> None:
        """End the thread, if it runs, and close the reader."""
        self._stopping.set()
        if self.is_alive():
            self.join()
        self._consumer.close()

    def _partition_count(self, topic: str, right: str) -> int:
        """Number of the topic's partitions; 0 where it does not exist.

        A question that failed is no topic of one partition: the group would be put into the wrong
        one, for good.
        """
        found = self._consumer.list_topics(topic, timeout=METADATA_TIMEOUT_SECONDS).topics.get(
            topic
        )
        if found is None or found.error is None:
            return 0 if found is None else len(found.partitions)
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0
        if (missing := missing_right(found.error, topic=topic, operation=right)) is not None:
            raise MissingRightError(missing)
        raise KafkaException(found.error)
