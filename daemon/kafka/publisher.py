"""Transactional producer of the planner: one step of the control is one transaction.

All planners share one transactional id. The planner that initialised the id last leads: the open
transaction of an older planner is aborted, and its next call fails. A fenced planner must stop and
never initialise again by itself, which would fence its successor. For the same reason an outage
never makes a new producer: a commit of unknown outcome is repeated on the same producer until the
brokers report how it ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import KafkaError, KafkaException

from levelwind.daemon.errors import ClusterUnavailableError, FencedError, LevelwindError
from levelwind.daemon.kafka import clients
from levelwind.daemon.kafka.record_writer import enqueue
from levelwind.daemon.telemetry.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Message, Producer

    from levelwind.assignors.protocol.topics import Topics
    from levelwind.daemon.kafka.record_writer import OnDelivery, OutgoingRecord

REQUIRED: Mapping[str, Any] = {
    # The brokers abort a transaction that takes longer, so that a planner that hangs does not hold
    # up readers of committed records for long.
    "transaction.timeout.ms": 10_000,
    "message.timeout.ms": 9_000,
    "linger.ms": 0,
    # By gzip, which any language reads without another library. Larger records than the default
    # limit of a message are cut.
    "compression.type": "gzip",
}
CALL_SECONDS = 1.0
"""Limit of one call of the client; it goes on where the last one ended.

A commit first waits for the messages under way. Once the brokers have refused one of them, the
client sends no other, and says so only when it is asked again.
"""
FENCED_ERRORS = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - the client's own name
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        # The brokers have forgotten the id, as after `transactional.id.expiration.ms` without a
        # transaction, or another planner has come after that: only a new term can tell.
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)


TOO_LARGE_ERRORS = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
"""The topic has no room for the record; one that is smaller may be taken."""

CLOCK_ERRORS = frozenset({KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})
"""The record's time may be too far ahead of the broker's: the client says of the records of one
request only that they are invalid."""

REFUSED_ERRORS = frozenset(
    {
        *TOO_LARGE_ERRORS,
        *CLOCK_ERRORS,
        KafkaError.INVALID_MSG,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError._BAD_MSG,  # noqa: SLF001 - the client's own name
    }
)
"""The brokers refuse the record itself: it will be refused again, however often it is sent."""


PASSING_ERRORS = clients.AUTHORIZATION_ERRORS | {
    # A topic was deleted or is being created again.
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the client's own name
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - the client's own name
    # An earlier record has ended the transaction.
    KafkaError._STATE,  # noqa: SLF001 - the client's own name
}
"""The client takes a record no more for a reason that concerns none in particular."""


class UnpublishableError(LevelwindError):
    """A record is refused as it is, so a retry cannot help; nothing was published."""


class TooLargeError(UnpublishableError):
    """A record is refused for its size."""


class _RetryError(Exception):
    """The call may succeed when it is repeated."""


class _AbortError(Exception):
    """The transaction can only be aborted."""


class Publisher:
    """The producer of assignments; one thread calls all methods."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        topics: Topics,
        *,
        role: str = "planner",
        timeout: float = 30.0,
        log: Any = None,
    ) -> None:
        """Make a publisher; `init` begins.

        Args:
            client_config: the clients' configuration.
            topics: the names of levelwind's topics.
            role: the end of the transactional id, behind the topics' prefix.
            timeout: seconds for each call.
            log: the logger; None for the process's.
        """
        self._timeout = timeout
        self._log = log or Logger()
        self._id = f"{topics.prefix}{role}"
        self._config = client_config
        self._producer = self._new_producer()
        self._fenced = ""
        """Reason why this daemon is not the planner any more; empty while it is. Final once set."""
        self._unfinished: Literal["nothing", "commit", "abort"] = "nothing"
        """The step that must end the last transaction before the next one begins."""
        self._refusal: UnpublishableError | None = None
        """Why the brokers refuse a record of the last transaction; None if they refused none."""

    def _new_producer(self) -> Producer:
        return clients.producer(self._config, {**REQUIRED, "transactional.id": self._id})

    def init(self) -> None:
        """Become the planner: fence the one before, and abort its open transaction.

        May be called again after it failed for want of an answer or of the right.

        Raises:
            FencedError: another daemon became the planner at the same time.
            ClusterUnavailableError: no answer in time, or no right to the transactional id.
        """
        self._call("initialise", self._producer.init_transactions)
        self._log.info("publisher.ready", transactional_id=self._id)

    def publish(self, records: Sequence[OutgoingRecord]) -> None:
        """Publish all of the records, or none.

        Raises:
            FencedError: another planner has taken over; this daemon must stop.
            ClusterUnavailableError: the brokers did not answer in time. Readers may see the records
                or not; publish them again later, which first ends the unfinished transaction.
                Records are states, so that publishing them twice does no harm.
            TooLargeError: the client or the brokers refuse a record for its size.
            UnpublishableError: they refuse one as it is for another reason.
        """
        self._finish()
        if not records:
            return
        begun = time.monotonic()
        self._refusal = None
        try:
            self._call("begin", lambda _: self._producer.begin_transaction())
            self._unfinished = "abort"
            self._send(records)
            self._unfinished = "commit"
            self._call("commit", self._producer.commit_transaction)
        except _AbortError as error:
            self._unfinished = "abort"
            reason = f"the transaction was aborted: {error}"
            try:
                self._finish()
            except FencedError as fenced:  # as where the brokers did not know of the transaction
                raise FencedError(f"{reason}; {fenced}") from error
            if self._refusal:
                raise self._refusal from error
            raise ClusterUnavailableError(reason) from error
        self._unfinished = "nothing"
        seconds = round(time.monotonic() - begun, 3)
        self._log.debug("publisher.published", records=len(records), seconds=seconds)

    def close(self) -> None:
        """Abort the open transaction, if the brokers answer within two seconds."""
        if self._fenced:
            return
        try:
            self._finish(timeout=2.0)
        except LevelwindError as error:
            self._log.warning("publisher.transaction_left_open", error=str(error))

    def _finish(self, timeout: float | None = None) -> None:
        """Commit or abort the last transaction, if it is unfinished."""
        if self._fenced:
            raise FencedError(self._fenced)
        if self._unfinished == "commit":
            try:
                self._call("commit", self._producer.commit_transaction, timeout)
                self._unfinished = "nothing"
            except _AbortError:
                self._unfinished = "abort"
        if self._unfinished == "abort":
            try:
                self._call("abort", self._producer.abort_transaction, timeout)
            except _AbortError as error:
                raise ClusterUnavailableError(f"abort: {error}") from error
            self._unfinished = "nothing"
            self._log.warning("publisher.aborted", transactional_id=self._id)

    def _send(self, records: Sequence[OutgoingRecord]) -> None:
        for record in records:
            try:
                enqueue(self._producer, record, self._delivered(record))
            except KafkaException as exception:
                error = clients.kafka_error(exception)
                if error.fatal() or error.txn_requires_abort():
                    raise self._classify("send", error) from exception
                if error.code() not in PASSING_ERRORS:
                    self._refusal = self._refusal or _refused(record, error)
                raise _AbortError(str(_refused(record, error))) from exception

    def _delivered(self, record: OutgoingRecord) -> OnDelivery:
        def delivered(error: KafkaError | None, _: Message) -> None:
            # The other records of a refused transaction are reported as purged.
            if error is not None and error.code() in REFUSED_ERRORS:
                self._refusal = self._refusal or _refused(record, error)

        return delivered

    def _call(self, what: str, call: Callable[[float], None], timeout: float | None = None) -> None:
        """Make one call of a transaction, and repeat it while it may succeed."""
        limit = self._timeout if timeout is None else timeout
        try:
            for attempt in clients.retrying(_RetryError, limit):
                with attempt:
                    self._call_once(what, call, min(limit, CALL_SECONDS))
        except _RetryError as error:
            raise ClusterUnavailableError(f"{what}: {error}") from error

    def _call_once(self, what: str, call: Callable[[float], None], timeout: float) -> None:
        try:
            # Hands the library's log lines to the logger, and raises an error that is fatal to it.
            self._producer.poll(0)
            call(timeout)
        except KafkaException as exception:
            raise self._classify(what, clients.kafka_error(exception)) from exception

    def _classify(self, what: str, error: KafkaError) -> Exception:
        lacks_right = error.code() in clients.AUTHORIZATION_ERRORS
        reason = f"{self._right(error)}: {error.str()}" if lacks_right else error.str()
        # Fatal to the client as well, but nobody has the id in its place: the caller asks again, by
        # another client, since this one would say the same once the right is there.
        if lacks_right and what == "initialise":
            self._producer = self._new_producer()
            return ClusterUnavailableError(f"{what}: {reason}")
        if error.fatal() or error.code() in FENCED_ERRORS:
            self._fenced = (
                f"{what}: this daemon lost the transactional id {self._id} ({reason}):"
                " another planner has taken over, or the brokers gave this planner up"
            )
            return FencedError(self._fenced)
        if error.txn_requires_abort():
            return _AbortError(reason)
        if error.retriable():
            return _RetryError(reason)
        return ClusterUnavailableError(f"{what}: {reason}")

    def _right(self, error: KafkaError) -> str:
        """The right that this user lacks."""
        of_topic = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        name = "a topic" if of_topic else f"transactional id {self._id}"
        return f"this user lacks WRITE on {name}"


def _refused(record: OutgoingRecord, error: KafkaError) -> UnpublishableError:
    reason = (
        f"a record of {len(record.value or b'')} bytes for {record.topic}/{record.partition}"
        f" is refused: {error.str()}"
    )
    if error.code() in TOO_LARGE_ERRORS:
        return TooLargeError(reason)
    if error.code() in CLOCK_ERRORS:
        reason += " (is the clock of this machine right?)"
    return UnpublishableError(reason)
