"""The topic of polled commits: read at the start of a term, and written in transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelwind.assignors.protocol.topics import LARGEST_WIDE_BYTES, partition_for
from levelwind.daemon.kafka.publisher import Publisher, TooLargeError
from levelwind.daemon.kafka.record_writer import OutgoingRecord
from levelwind.daemon.kafka.topic_reader import messages_to_end
from levelwind.daemon.polling.polled_records import read_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords

READ_SECONDS = 30.0
"""Time without progress after which reading gives up."""
PUBLISH_SECONDS = 5.0
"""Limit of one attempt to publish."""


class CommitsTopic:
    """The topic, for one thread; it knows the records by their keys alone."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        partitions: int,
        unwritten: UnwrittenRecords,
        log: Any,
    ) -> None:
        """Make the clients.

        Args:
            client_config: settings of the Kafka clients.
            topics: the names of levelwind's topics.
            partitions: the topic's number of partitions.
            unwritten: takes the records that the topic has no room for.
            log: the logger.
        """
        self._config = client_config
        self._topics = topics
        self._partitions = partitions
        self._unwritten = unwritten
        # One at most holds the id: a term that is over is fenced, and its open transaction aborted.
        config = {"message.max.bytes": 4 * LARGEST_WIDE_BYTES, **client_config}
        self._publisher = Publisher(
            config, topics, role="commits", timeout=PUBLISH_SECONDS, log=log
        )
        self._begun = False
        """Whether the transactional id was taken."""

    def begin(self) -> None:
        """Take the transactional id, unless this topic has done so.

        Raises:
            FencedError: another daemon took it at the same time.
            ClusterUnavailableError: no answer in time, or no right to the id.
        """
        if not self._begun:
            self._publisher.init()
            self._begun = True

    def read(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield keys and values from the beginning to the present end.

        Raises:
            NotFoundError: the topic does not exist.
            ClusterUnavailableError: no answer, or no progress in time.
        """
        names = (self._topics.commits,)
        for message in messages_to_end(self._config, self._topics, names, READ_SECONDS):
            yield message.key(), message.value()

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        """Write values by key; one that the topic has no room for costs itself alone.

        Raises:
            FencedError: another daemon polls.
            ClusterUnavailableError: the brokers did not answer in time; write them again later.
            UnpublishableError: the brokers refuse a record, and not for its size, as where this
                machine's clock is ahead; nothing of the rest was written.
        """
        names = {key: _name(key) for key in records}
        messages = {
            key: OutgoingRecord(
                topic=self._topics.commits,
                key=key,
                value=value,
                partition=partition_for(names[key][1], self._partitions),
            )
            for key, value in records.items()
        }
        while messages:
            largest = max(messages, key=lambda key: len(messages[key].value or b""))
            try:
                self._publisher.publish([*messages.values()])
            except TooLargeError:
                size = len(messages.pop(largest).value or b"")
                self._unwritten.refused(self._topics.commits, names[largest], size)
            else:
                for key in messages:
                    self._unwritten.written(self._topics.commits, names[key])
                return

    def close(self) -> None:
        """End what is under way."""
        self._publisher.close()
        self._unwritten.forget(self._topics.commits)


def _name(key: bytes) -> tuple[str, str]:
    """What a record is about, and the group: commits are small, and members many."""
    _, group, commit = read_key(key)
    return ("members" if commit is None else "commit"), group
