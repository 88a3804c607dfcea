"""Commits in transactions: the brokers refuse those of a life that has been fenced.

One transactional id belongs to a group and an instance. Whoever initialises it fences all that did
so before: the next life of the member, or the planner before it gives an evicted member's
partitions away. From then on no commit of the former life arrives, however late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from assignors.boot_clock import boot_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class CommitsEndedError(RuntimeError):
    """No commit of this life is possible any more: it was fenced, or a commit stayed undecided."""


class TransactionalCommits:
    """The transactional producer of one member, a new one in each of its lives.

    The member's thread calls `initialise` while the member owns nothing, the application's thread
    `commit` while it owns something.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Keep the producer's settings, `transactional.id` among them."""
        self._settings = dict(settings)
        self._next: Any = None
        self._producer: Any = None

    def initialise(self, timeout: float) -> None:
        """Fence all former lives; repeat the call after an error.

        Only a life that begins may do this. One that was fenced and initialised the id again would
        undo the fence.

        Raises:
            KafkaException: The brokers refused, or did not answer within `timeout` seconds.
        """
        if self._next is None:
            self._next = Producer(self._settings)
        try:
            self._next.init_transactions(timeout)
        except KafkaException as error:
            if not error.args[0].retriable():
                self._next = None
            raise
        self._producer, self._next = self._next, None

    def commit(self, offsets: list[Any], *, group_metadata: Any, timeout: float) -> None:
        """Commit offsets of the group in one transaction.

        Args:
            offsets: `TopicPartition` values with the next offsets to read.
            group_metadata: What the consumer's `consumer_group_metadata()` returned.
            timeout: Seconds for all attempts.

        Raises:
            KafkaException: The brokers refused: nothing is committed, nor will be.
            CommitsEndedError: This life was fenced, or nobody knows whether the offsets are
                committed. The next life's `initialise` decides that.
        """
        until = boot_seconds() + timeout
        producer = self._producer
        try:
            producer.begin_transaction()
            _retry(
                lambda left: producer.send_offsets_to_transaction(offsets, group_metadata, left),
                until,
            )
            _retry(producer.commit_transaction, until)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise CommitsEndedError(error.args[0].str()) from error
            try:
                _retry(producer.abort_transaction, until)
            except KafkaException as failure:
                raise CommitsEndedError(failure.args[0].str()) from failure
            raise


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
