"""Metadata topic: the observer publishes changes and samples, and reads its state back.

Changes are acknowledged before they count; samples are sent without waiting. The producer is
idempotent, so that the records of one key keep their order whatever is retried. A record that is
larger than the topic takes costs itself alone: the one before it stays.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from levelwind.assignors.protocol.topics import LARGEST_WIDE_BYTES
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.record_writer import enqueue, outgoing
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind.daemon.observer.cluster_probe import UnansweredError
from levelwind.daemon.observer.cluster_state import recovered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from confluent_kafka import Message, Producer

    from levelwind.assignors.protocol.records import Key, OffsetsRecord
    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.kafka.record_writer import OnDelivery, OutgoingRecord
    from levelwind.daemon.observer.cluster_state import Change, ClusterState
    from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords

REQUIRED: Mapping[str, Any] = {
    "enable.idempotence": True,
    "linger.ms": 5,
    # A sample this old is useless, and the next tick finds a change again.
    "message.timeout.ms": 10_000,
}
PREFERRED: Mapping[str, Any] = {
    "compression.type": "lz4",
    # The client compares a record before its compression, the broker behind it.
    "message.max.bytes": 4 * LARGEST_WIDE_BYTES,
}
"""Preferred settings of the producer."""
ACKNOWLEDGE_SECONDS = 12
"""Longest wait for acknowledgements; longer than `message.timeout.ms`."""
RECOVER_SECONDS = 5.0
"""Seconds without progress after which reading the state back is left to the next tick, which
begins anew; more where `RECOVER_REQUESTS` may take more."""
RECOVER_REQUESTS = 3
"""Requests before the first record: to connect, for the ends and for the record."""
CLOSE_SECONDS = 2.0


class MetadataTopic:
    """Writer of the metadata topic, and reader of the state published before."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        log: Any,
        unwritten: UnwrittenRecords,
        ending: threading.Event | None = None,
    ) -> None:
        """Make a writer; once `ending` is set it writes nothing more and waits for nothing."""
        self._unwritten = unwritten
        self._ending = ending or threading.Event()
        self._config = client_config
        self._topics = topics
        self._log = log
        self._producer = self._new_producer()
        self._partitions = 0  # not asked for yet
        self._lost_sample: str | None = None

    def recover(self, within: float) -> ClusterState:
        """Read back the published state.

        Args:
            within: seconds that each request may take.

        Raises:
            NotFoundError: the topic does not exist.
            ClusterUnavailableError: the cluster did not answer in time.
        """
        timeout = max(RECOVER_SECONDS, RECOVER_REQUESTS * within)
        items = read_to_end(self._config, self._topics, ("metadata",), timeout=timeout)
        return recovered(item.record for item in items)

    def publish(self, changes: Sequence[Change], before: Collection[str]) -> Collection[Key]:
        """Publish changes and wait for acknowledgement.

        Args:
            changes: the records.
            before: names of the topics whose layout was published before. What is neither there nor
                among the changes has gone.

        Returns:
            The keys of those that are larger than the topic takes: they are not published.

        Raises:
            UnansweredError: not all others were acknowledged, or the observer ends.
        """
        outcomes: list[KafkaError | None] = []
        for change in changes:
            self._produce(change, lambda error, _: outcomes.append(error))
        for _ in range(ACKNOWLEDGE_SECONDS):
            if not self._producer.flush(1.0) or self._ending.is_set():
                break
        if failed := [error for error in outcomes if error is not None]:
            raise UnansweredError(f"{len(failed)} changes were not published: {failed[0].str()}")
        if len(outcomes) < len(changes):
            raise UnansweredError(
                f"{len(changes) - len(outcomes)} changes were not acknowledged in time"
            )
        keys, metadata = {change.key for change in changes}, self._topics.metadata
        names = {key[1] for key in keys}.union(before)
        refused = {key for topic, key in self._unwritten.found() if topic == metadata}
        for key in refused:
            if key[1] not in names:
                self._unwritten.written(metadata, key)
        return refused & keys

    def offer(self, samples: Iterable[OffsetsRecord]) -> None:
        """Send samples without waiting; raise `UnansweredError` if an earlier sample was lost."""
        self._lost_sample = None
        try:
            self._producer.poll(0)
        except KafkaException as exception:
            raise self._refusal(exception) from exception
        for record in samples:
            self._produce(record, self._sampled)
        if self._lost_sample is not None:
            raise UnansweredError(self._lost_sample)

    def close(self) -> None:
        """Send the pending records, for two seconds at most; what is left is never sent."""
        if self._producer.flush(CLOSE_SECONDS):
            self._producer.purge()
        self._unwritten.forget(self._topics.metadata)

    def _sampled(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._lost_sample = f"a sample was not published: {error.str()}"

    def _produce(self, record: Change | OffsetsRecord, delivered: OnDelivery) -> None:
        if self._ending.is_set():
            raise UnansweredError("the observer ends")
        producer = self._producer
        try:
            count = self._count(producer)
            for message in outgoing(self._topics, "metadata", record, count):
                # Never waited for: a tick that cannot publish is an outage, and the next one
                # retries.
                self._enqueue(producer, message, record.key, delivered)
        except BufferError as full:
            raise UnansweredError("the producer's queue is full") from full
        except KafkaException as exception:
            raise self._refusal(exception) from exception

    def _enqueue(
        self, producer: Producer, message: OutgoingRecord, key: Key, delivered: OnDelivery
    ) -> None:
        """Hand a message over; that it is too large is no error, but costs the record alone."""
        size = len(message.value or b"")

        def reported(error: KafkaError | None, of: Message) -> None:
            if error is None:
                self._unwritten.written(message.topic, key)
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._unwritten.refused(message.topic, key, size)
                error = None
            delivered(error, of)

        try:
            enqueue(producer, message, reported, wait=False)
        except KafkaException as exception:
            error = clients.kafka_error(exception)
            if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
            reported(error, None)

    def _refusal(self, exception: KafkaException) -> UnansweredError:
        """Return the error of a call that the producer refused, which is replaced if it failed."""
        error = clients.kafka_error(exception)
        if error.fatal():
            # A producer with a fatal error never works again: the next tick uses a new one.
            self._producer = self._new_producer()
            self._log.warning("observer.producer_renewed", error=error.str())
        return UnansweredError(error.str())

    def _count(self, producer: Producer) -> int:
        if not self._partitions:
            described = producer.list_topics(self._topics.metadata, timeout=5).topics[
                self._topics.metadata
            ]
            if not described.partitions:
                raise UnansweredError(f"{self._topics.metadata} does not exist")
            self._partitions = len(described.partitions)
        return self._partitions

    def _new_producer(self) -> Producer:
        return clients.producer({**PREFERRED, **self._config}, REQUIRED)
