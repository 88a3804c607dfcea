"""Announcements of a member: an idempotent producer of `levelwind.members`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.protocol.records import WireError, encode, encode_key, headers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from levelwind.assignors.clients.confluent.settings import ClientSettings
    from levelwind.assignors.protocol.records import Key, MemberRecord


class Announcer:
    """Writes the records of one member; only the member's thread calls its methods."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        topic: str,
        on_acked: Callable[[str, float], None],
        on_failed: Callable[[Any], None],
        on_replaced: Callable[[str], None],
    ) -> None:
        """Make the producer.

        Args:
            settings: Settings of the producer.
            topic: Name of `levelwind.members`.
            on_acked: Called with incarnation and time of sending of each announcement that the
                brokers acknowledged. The time was taken before the record was produced.
            on_failed: Called with a `KafkaError` or a reason in words when an announcement did not
                reach the brokers.
            on_replaced: Called with the reason when the producer failed and was replaced.
        """
        self.partition = 0
        """The group's partition of the topic; set before the first announcement."""
        self._settings = settings
        self._topic = topic
        self._on_acked = on_acked
        self._on_failed = on_failed
        self._on_replaced = on_replaced
        self._producer: Any = Producer(settings.producer)

    @property
    def undelivered(self) -> bool:
        """Whether an announcement waits for its acknowledgement."""
        return len(self._producer) > 0

    def announce(self, record: MemberRecord) -> None:
        """Write the member's record.

        Raises:
            ValueError: The record cannot be encoded: the member's settings are too long.
        """
        try:
            key, value = encode(record)
        except WireError as error:
            raise ValueError(f"the member's settings cannot be announced: {error}") from error
        sent_at = boot_seconds()

        def delivered(error: Any, _message: Any) -> None:
            if error is None:
                self._on_acked(record.incarnation, sent_at)
            else:
                self._failed(error)

        fields = headers(record, epoch=record.acked_epoch)
        self._write(key, value, dict(fields), delivered)

    def retire(self, key: Key) -> None:
        """Write a tombstone for a member's record."""
        self._write(
            encode_key(key),
            None,
            {},
            lambda error, _: None if error is None else self._failed(error),
        )

    def serve(self) -> None:
        """Take in acknowledgements."""
        producer = self._producer
        try:
            producer.poll(0)
        except KafkaException as error:
            # A fatal error is raised here as well, once, if no delivery report came with it.
            if not error.args[0].fatal():
                raise
            if producer is self._producer:
                self._replace(error.args[0])

    def flush(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for all acknowledgements; a failed producer has none."""
        try:
            self._producer.flush(timeout)
        except KafkaException as error:
            if not error.args[0].fatal():
                raise
            self._on_failed(error.args[0])

    def _write(
        self,
        key: bytes,
        value: bytes | None,
        fields: Mapping[str, bytes],
        delivered: Callable[[Any, Any], None],
    ) -> None:
        try:
            self._producer.produce(
                self._topic,
                key=key,
                value=value,
                partition=self.partition,
                headers=list(fields.items()),
                on_delivery=delivered,
            )
        except BufferError:  # brokers unreachable for long; the next heartbeat repeats it all
            self._on_failed("queue full")
        except KafkaException as error:
            self._replace(error.args[0])

    def _failed(self, error: Any) -> None:
        self._on_failed(error)
        if error.fatal():
            self._replace(error)

    def _replace(self, error: Any) -> None:
        # An idempotent producer cannot continue after a fatal error; a new one can, since each
        # announcement is a whole state.
        self._on_replaced(error.str())
        self._producer = Producer(self._settings.producer)
