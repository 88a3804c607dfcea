"""Commits in transactions: the brokers refuse those of a life that has been fenced.

One transactional id belongs to a group and an instance. Whoever initialises it fences all that did
so before: the next life of the member, or the planner before it gives an evicted member's
partitions away. From then on no commit of the former life arrives, however late.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from levelwind.assignors.boot_clock import boot_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RESUME_SECONDS = 0.5
"""Longest wait for an undecided commit before the next one: librdkafka goes on in between."""
OVERTIME_SECONDS = 1.0
"""Time for which librdkafka may exceed the time-out of a call before it counts as stuck."""
UNANSWERED_ERRORS = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT}  # noqa: SLF001
)
"""Errors after which offsets may still be on their way to the brokers."""
UNSENT_ERRORS = frozenset(
    {KafkaError.CONCURRENT_TRANSACTIONS, KafkaError._CRIT_SYS_RESOURCE}  # noqa: SLF001
)
"""Errors of a transaction that begins before the one before it has ended in all logs, so that the
brokers take no offsets for it yet, or for which the system gives no thread. It passes, and none of
the transaction's offsets is on its way."""
FORGOTTEN_ERRORS = frozenset(
    {KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.UNKNOWN_PRODUCER_ID}
)
"""Errors of a producer that the brokers have forgotten, as after `transactional.id.expiration.ms`
without a transaction: only `initialise` helps (KAFKA-18019)."""


class CommitsEndedError(RuntimeError):
    """No commit of this life is possible any more: it was fenced, or its offsets are on their way.

    Offsets that were sent and not answered could arrive within a later transaction of the life and
    put the group back. A commit that was only not answered is carried on instead.
    """


class TransactionalCommits:
    """The transactional producer of one member, a new one in each of its lives.

    The member's thread calls `initialise` while the member owns nothing, the application's thread
    `commit` while it owns something.
    """

    def __init__(self, settings: Mapping[str, Any], *, former_id: str | None = None) -> None:
        """Keep the producer's settings, `transactional.id` among them.

        Args:
            settings: Settings of librdkafka.
            former_id: The id under which a life of a former release may still commit.
        """
        self._settings = dict(settings)
        self._former_id = former_id if former_id != self._settings["transactional.id"] else None
        """A further id that the first life fences; None where that is done, or not needed."""
        self._former: Any = None
        self.undecided = False
        """Whether the outcome of the last commit is not known."""
        self._next: Any = None
        self._producer: Any = None

    def initialise(self, timeout: float) -> None:
        """Fence all former lives; repeat the call after an error.

        Only a life that begins may do this. One that was fenced and initialised the id again would
        undo the fence.

        Raises:
            KafkaException: The brokers refused, or did not answer within `timeout` seconds.
        """
        if self._former_id is not None:
            self._fence_former(self._former_id, timeout)
            self._former = self._former_id = None
        if self._next is None:
            self._next = Producer(self._settings)
        try:
            self._next.init_transactions(timeout)
        except KafkaException as error:
            if not error.args[0].retriable():
                self._next = None
            raise
        self._producer, self._next = self._next, None
        self.undecided = False

    def _fence_former(self, identifier: str, timeout: float) -> None:
        if self._former is None:  # else the attempt before took too long
            self._former = Producer({**self._settings, "transactional.id": identifier})
        try:
            self._former.init_transactions(timeout)
        except KafkaException as error:
            # Whoever may not use the id has not committed under it.
            if error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                return
            if not error.args[0].retriable():
                self._former = None
            raise

    def commit(self, offsets: list[Any], *, group_metadata: Any, timeout: float) -> None:
        """Commit offsets of the group in one transaction, after any that is still undecided.

        Args:
            offsets: `TopicPartition` values with the next offsets to read.
            group_metadata: What the consumer's `consumer_group_metadata()` returned.
            timeout: Seconds for all attempts.

        Raises:
            KafkaException: The brokers refused, and nothing is committed, nor will be; or the
                commit before is still `undecided`, and nothing was done; or now this one is. An
                undecided commit is carried on by the next call, and by `settle`.
            CommitsEndedError: This life was fenced, or the brokers did not answer whether they
                have the offsets. The next life's `initialise` decides what became of them.
        """
        until = boot_seconds() + timeout
        if self.undecided:
            self._end(boot_seconds() + min(timeout, RESUME_SECONDS))
        producer = self._producer
        try:
            producer.begin_transaction()
            _bounded(
                lambda left: producer.send_offsets_to_transaction(offsets, group_metadata, left),
                until,
            )
        except KafkaException as error:
            if error.args[0].code() in UNANSWERED_ERRORS:
                raise CommitsEndedError(error.args[0].str()) from error
            self._abort_after(error, until)
            raise
        self.undecided = True
        self._end(until)

    def settle(self, timeout: float, *, last: bool) -> None:
        """Wait for the outcome of an `undecided` commit.

        Args:
            timeout: Seconds for all attempts.
            last: Whether a commit that is undecided after that ends the commits of this life.

        Raises:
            CommitsEndedError: This life was fenced, or its commits end undecided. The next life's
                `initialise` decides what became of them.
        """
        try:
            self._end(boot_seconds() + timeout)
        except KafkaException as error:
            if self.undecided and last:
                raise CommitsEndedError(error.args[0].str()) from error

    def _end(self, until: float) -> None:
        try:
            _retry(self._producer.commit_transaction, until)
        except KafkaException as error:
            if not error.args[0].retriable():
                self._abort_after(error, until)
                self.undecided = False
            raise
        self.undecided = False

    def _abort_after(self, error: KafkaException, until: float) -> None:
        """Abort where the error asks for it, or nothing was sent; else this life's commits end."""
        reason = error.args[0]
        if reason.code() in FORGOTTEN_ERRORS or not (
            reason.txn_requires_abort() or reason.code() in UNSENT_ERRORS
        ):
            raise CommitsEndedError(reason.str()) from error
        try:
            _retry(self._producer.abort_transaction, until)
        except KafkaException as failure:
            raise CommitsEndedError(failure.args[0].str()) from failure


def _bounded(attempt: Callable[[float], object], until: float) -> None:
    """As `_retry`, for a call that may never return: `CommitsEndedError` if it is stuck.

    Where the system gives no thread, the call is not made, and the error is `_CRIT_SYS_RESOURCE`.

    While a group's coordinator is away librdkafka forgets the time-out of a call that sends offsets
    (its issues 5456 and 5511). The call is left to a thread of its own then, with its producer.
    """
    answers: SimpleQueue[KafkaException | None] = SimpleQueue()

    def run() -> None:
        try:
            _retry(attempt, until)
        except KafkaException as error:
            answers.put(error)
        else:
            answers.put(None)

    try:
        Thread(target=run, name="levelwind-send-offsets", daemon=True).start()
    except RuntimeError as refusal:
        code = KafkaError._CRIT_SYS_RESOURCE  # noqa: SLF001 - confluent's own name
        raise KafkaException(KafkaError(code, str(refusal))) from refusal
    try:
        error = answers.get(timeout=max(until - boot_seconds(), 0.0) + OVERTIME_SECONDS)
    except Empty:
        raise CommitsEndedError("librdkafka exceeds the time-out of a commit") from None
    if error is not None:
        raise error


def _retry(attempt: Callable[[float], object], until: float) -> None:
    """Repeat `attempt(seconds left)` while its errors ask for it, but not past `until`."""
    while True:
        try:
            attempt(max(until - boot_seconds(), 0.1))
        except KafkaException as error:
            if not error.args[0].retriable() or boot_seconds() >= until:
                raise
        else:
            return
