"""Reading the records of logs from given offsets to their ends, with a consumer of the observer."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from levelwind.daemon.kafka import clients

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Consumer, Message

    from levelwind.daemon.observer.cluster_probe import Partition

READ_AT_ONCE = 1000


class ObserverConsumer:
    """A consumer without a group, which is made when it is first needed."""

    def __init__(
        self,
        config: Mapping[str, object],
        isolation: Literal["read_committed", "read_uncommitted"],
        **required: object,
    ) -> None:
        """Prepare a consumer.

        Args:
            config: the operator's settings.
            isolation: which records it receives.
            required: settings besides.
        """
        self._config = config
        self._required = {
            "group.id": "levelwind-observer",  # never joined, never committed to
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "queued.max.messages.kbytes": 16384,
            **required,
        }
        self._consumer: Consumer | None = None

    def close(self) -> None:
        """Close the connections; the next reading makes others."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def records_to_ends(
        self, starts: Mapping[Partition, int], timeout: float
    ) -> Iterator[tuple[Partition, Message | None]]:
        """Yield the records at or after each start, and None where a partition is read to its end.

        It ends once all partitions are, or gave an error, or after `timeout` seconds.
        """
        if self._consumer is None:
            self._consumer = clients.consumer(self._config, self._required)
        consumer = self._consumer
        until = time.monotonic() + timeout
        unfinished = set(starts)
        try:
            consumer.assign(
                [TopicPartition(*partition, offset) for partition, offset in starts.items()]
            )
            while unfinished and (left := until - time.monotonic()) > 0:
                for message in consumer.consume(READ_AT_ONCE, min(left, 0.1)):
                    partition = (message.topic(), message.partition())
                    if partition not in starts:  # of an earlier reading
                        continue
                    error = message.error()
                    if error is None:
                        yield partition, message
                        continue
                    unfinished.discard(partition)
                    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's name for it
                        yield partition, None
        finally:
            with suppress(KafkaException):  # the client is ending
                consumer.unassign()  # so that it fetches nothing more
