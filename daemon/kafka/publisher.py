"""Publishes the planner's records: one step, one transaction, under one transactional id for all planners there are.

Who initialises the id last is the planner; what an older one still has under way is aborted, and whatever it tries next
fails. It must then stop, and never initialise again by itself: that would fence the one that took over. So an outage never
makes a new producer either: a commit whose outcome is unknown is asked for again, on the same producer, until the
brokers say how it ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import KafkaError, KafkaException
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from daemon.errors import ClusterUnavailableError, FencedError, LevelwindError
from daemon.kafka import clients
from daemon.kafka.record_writer import enqueue
from daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignors.protocol.topics import Topics
    from daemon.kafka.record_writer import OutgoingRecord

REQUIRED: Mapping[str, Any] = {
    # The brokers abort what takes longer: a planner that hangs holds no reader of committed records up for long.
    "transaction.timeout.ms": 10_000,
    "message.timeout.ms": 9_000,
    "linger.ms": 0,
    # The plan of a group of ten thousand members is more than a record may have, and a fifth of that when compressed; by
    # gzip, which readers in any language know without another library.
    "message.max.bytes": 4 * 1024 * 1024,
    "compression.type": "gzip",
}
FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - the client's own name
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)


class UnpublishableError(LevelwindError):
    """The brokers or the client refuse a record as it is: to send it again is of no use. Nothing was published."""


class _AgainError(Exception):
    """The same call may succeed later."""


class _AbortError(Exception):
    """The transaction cannot be committed any more."""


class Publisher:
    """The one producer of the assignments; for one thread."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        *,
        timeout: float = 30.0,
        log: Any = None,
    ) -> None:
        self._timeout = timeout
        self._log = log or Logger()
        self._id = f"{topics.prefix}planner"
        self._producer = clients.producer(client_config, {**REQUIRED, "transactional.id": self._id})
        self._fenced = ""  # why we are not the planner any more; for good
        self._left: Literal["nothing", "commit", "abort"] = (
            "nothing"  # to be done before the next transaction
        )

    def init(self) -> None:
        """Become the planner: fence the one before, and end what it had under way.

        Raises:
            FencedError: another one became the planner at the same time.
            ClusterUnavailableError: no answer in time, or no right to the transactional id.
        """
        self._call("initialise", self._producer.init_transactions)
        self._log.info("publisher.ready", transactional_id=self._id)

    def publish(self, records: Sequence[OutgoingRecord]) -> None:
        """Publish all of the records, or none.

        Raises:
            FencedError: another planner has taken over: stop.
            ClusterUnavailableError: the brokers did not answer in time. Whether the records will be seen is open; publish
                again later: it first brings to its end what was left, and records are states, so nothing is lost twice.
            UnpublishableError: a record is refused as it is.
        """
        self._settle()
        if not records:
            return
        begun = time.monotonic()
        try:
            self._call("begin", lambda _: self._producer.begin_transaction())
            self._left = "abort"
            self._send(records)
            self._left = "commit"
            self._call("commit", self._producer.commit_transaction)
        except _AbortError as error:
            self._left = "abort"
            self._settle()
            raise ClusterUnavailableError(f"the transaction was aborted: {error}") from error
        self._left = "nothing"
        seconds = round(time.monotonic() - begun, 3)
        self._log.debug("publisher.published", records=len(records), seconds=seconds)

    def close(self) -> None:
        """Abort what is under way, if the brokers are there to hear of it, and send no more."""
        if self._fenced:
            return
        try:
            self._settle(timeout=2.0)
        except LevelwindError as error:
            self._log.warning("publisher.transaction_left_open", error=str(error))

    def _settle(self, timeout: float | None = None) -> None:
        """Bring the transaction before to its end."""
        if self._fenced:
            raise FencedError(self._fenced)
        if self._left == "commit":
            try:
                self._call("commit", self._producer.commit_transaction, timeout)
                self._left = "nothing"
            except _AbortError:
                self._left = "abort"
        if self._left == "abort":
            try:
                self._call("abort", self._producer.abort_transaction, timeout)
            except _AbortError as error:
                raise ClusterUnavailableError(f"abort: {error}") from error
            self._left = "nothing"
            self._log.warning("publisher.aborted", transactional_id=self._id)

    def _send(self, records: Sequence[OutgoingRecord]) -> None:
        for record in records:
            try:
                enqueue(self._producer, record)
            except KafkaException as exception:
                error = clients.kafka_error(exception)
                if error.fatal() or error.txn_requires_abort():
                    raise self._verdict("send", error) from exception
                self._settle()
                raise UnpublishableError(
                    f"a record of {len(record.value or b'')} bytes for {record.topic}/{record.partition}"
                    f" is refused: {error.str()}"
                ) from exception

    def _call(self, what: str, call: Callable[[float], None], timeout: float | None = None) -> None:
        """Make one call of a transaction, again and again while that is of use."""
        limit = self._timeout if timeout is None else timeout
        retrying = Retrying(
            retry=retry_if_exception_type(_AgainError),
            stop=stop_after_delay(limit),
            wait=wait_exponential(multiplier=0.05, max=1.0),
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt:
                    self._producer.poll(0)  # hands on what the library has logged
                    self._call_once(what, call, limit)
        except _AgainError as error:
            raise ClusterUnavailableError(f"{what}: {error}") from error

    def _call_once(self, what: str, call: Callable[[float], None], timeout: float) -> None:
        try:
            call(timeout)
        except KafkaException as exception:
            raise self._verdict(what, clients.kafka_error(exception)) from exception

    def _verdict(self, what: str, error: KafkaError) -> Exception:
        if error.fatal() or error.code() in FENCED:
            self._fenced = (
                f"{what}: the transactional id {self._id} is no longer ours ({error.str()}):"
                " another planner has taken over, or the brokers gave this one up"
            )
            return FencedError(self._fenced)
        if error.txn_requires_abort():
            return _AbortError(error.str())
        if error.code() in clients.AUTHORIZATION_ERRORS:
            return ClusterUnavailableError(
                f"{what}: no right to publish under {self._id}: {error.str()}"
            )
        if error.retriable():
            return _AgainError(error.str())
        return ClusterUnavailableError(f"{what}: {error.str()}")
