"""`ManagedConsumer`: a confluent-kafka consumer that follows levelwind's assignments.

The application uses it like `confluent_kafka.Consumer`, with `poll`, `consume`, `commit` and
`close`, but never subscribes. The planner adds and removes partitions, always revoking before it
grants; both happen inside `poll`, so callbacks run in the caller's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeAlias
from uuid import uuid4

from confluent_kafka import Consumer

from assignors.clients.confluent.committing.granted_offsets import NotOwnedError
from assignors.clients.confluent.committing.offsets import CommitTracker, StraySubscriberError
from assignors.clients.confluent.committing.transactions import TransactionalCommits
from assignors.clients.confluent.delivery import Delivery
from assignors.clients.confluent.following.follower import AssignmentFollower
from assignors.clients.confluent.owned_partitions import (
    FencingToken,
    OwnedPartitions,
    OwnershipChange,
)
from assignors.clients.confluent.settings import (
    Fencing,
    SettingError,
    client_settings,
    member_profile,
)
from assignors.handover.member_state import MemberMachine, Phase
from assignors.handover.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType


__all__ = [
    "FencingToken",
    "ManagedConsumer",
    "NotOwnedError",
    "OwnershipChange",
    "SettingError",
    "StraySubscriberError",
]

Callback: TypeAlias = "Callable[[ManagedConsumer, list[Any]], object] | None"


class ManagedConsumer:
    """A consumer whose partitions levelwind assigns; only one thread may use it.

    Delivery is at least once, and three settings decide what is committed:

    - With `enable.auto.commit` (the default) a record counts as processed when the application
      asks for the next one. Processed offsets are committed every `auto.commit.interval.ms`,
      whenever a partition is given up, and in `close`.
    - With `enable.auto.offset.store=false` a record counts as processed when the application says
      so with `store_offsets`: for applications that work on records after `poll` returned others.
    - With `enable.auto.commit=false` only `commit` commits; `on_revoke` is the last chance to
      commit a partition that is given up.

    The application must poll at least every `max.poll.interval.ms`. Past that the consumer loses
    everything it owned, and commits raise `NotOwnedError` until it polls again.

    As a context manager the consumer closes itself. When the block ends without an exception, the
    record handed out last counts as processed too.

    Args:
        config: librdkafka's settings, under their own names. Those that the hand-over must own
            (`group.id`, `session.timeout.ms` and others) raise `SettingError`.
        group: The consumer group; its partitions must be managed by levelwind.
        topics: Names of the topics to read; not empty.
        instance: Name of this member. A process that restarts under the same name gets its
            partitions back, so give each process a lasting name of its own; two live processes
            with one name evict each other. By default host name, process id and a random part.
        rack: Rack of this process, as in the brokers' `broker.rack`. Also sets `client.rack`,
            unless `config` sets it.
        capacity: Share of the load that this member can take, relative to the other members;
            above 0.
        priority: Rank of this member for strategies that prefer members (`failover`): a higher
            number is preferred.
        on_assign: Called with (consumer, partitions) after partitions were added. Each partition
            carries the offset at which reading starts.
        on_revoke: Called with (consumer, partitions) before their offsets are committed and the
            partitions are removed.
        on_lost: Called with (consumer, partitions) when partitions may already have another
            owner: their offsets can no longer be committed.
        fencing: "broker" sends each commit in a transaction, under one transactional id for the
            group and the instance. The brokers then refuse commits of a life that was followed by
            another or that the planner evicted, however late they arrive. Every commit then waits
            for the brokers, an asynchronous one too. With "none" a commit that was sent in time
            may arrive late and put the group's offset back, never beyond what was processed.
        prefix: Prefix of levelwind's topics, as in the daemon's settings.
        timers: Timers of the hand-over, in seconds; they must equal the planner's.
        journal: Called with an `OwnershipChange` before the first record of a gained partition is
            fetched, and after a partition was released.

    Raises:
        SettingError: A setting or an argument is not allowed.
        KafkaException: librdkafka refuses the configuration.
    """

    def __init__(
        self,
        config: dict[str, Any],
        *,
        group: str,
        topics: Sequence[str],
        instance: str | None = None,
        rack: str | None = None,
        capacity: float = 1.0,
        priority: int = 0,
        on_assign: Callback = None,
        on_revoke: Callback = None,
        on_lost: Callback = None,
        fencing: Fencing = "none",
        prefix: str = "levelwind.",
        timers: Timers | None = None,
        journal: Callable[[OwnershipChange], object] | None = None,
    ) -> None:
        timers = timers or Timers()
        profile = member_profile(
            config,
            group=group,
            topics=topics,
            instance=instance,
            rack=rack,
            priority=priority,
            capacity=capacity,
            fencing=fencing,
            prefix=prefix,
        )
        self._profile = profile
        self._settings = client_settings(config, profile=profile, timers=timers)
        self._leave_seconds = 2 * timers.commit
        self._closed = False
        transactions = (
            None
            if self._settings.transactions is None
            else TransactionalCommits(self._settings.transactions)
        )
        self._follower = AssignmentFollower(
            member=MemberMachine.create(profile=profile, timers=timers, incarnation=uuid4().hex),
            settings=self._settings,
            prefix=prefix,
            transactions=transactions,
        )
        self._commits = CommitTracker(
            self._settings, timers=timers, follower=self._follower, transactions=transactions
        )
        self._consumer: Any = Consumer(
            {**self._settings.consumer, "on_commit": self._commits.on_answer}
        )
        self._commits.consumer = self._consumer
        callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost}
        self._owned = OwnedPartitions(
            consumer=self._consumer,
            follower=self._follower,
            commits=self._commits,
            start_timeout=timers.start_timeout,
            pins_latest=self._settings.from_latest and self._settings.auto_commit,
            callbacks={name: self._bind(callback) for name, callback in callbacks.items()},
            journal=journal,
        )
        self._delivery = Delivery(follower=self._follower, owned=self._owned, commits=self._commits)
        self._follower.start()

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._profile.group

    @property
    def instance(self) -> str:
        """Name of this member, the same in all its lives."""
        return self._profile.instance

    @property
    def incarnation(self) -> str:
        """Identifier of the member's current life; a new one starts whenever it joins again."""
        return self._follower.incarnation

    @property
    def phase(self) -> Phase:
        """State of this member in the hand-over."""
        return self._follower.phase

    def lease_remaining(self) -> float:
        """Seconds for which this member may still use its partitions, 0 without a lease.

        The lease is renewed every few seconds while the brokers answer. Records and commits stop
        `timers.guard` before its end, so a handler that may take longer than that should ask.
        """
        return self._follower.lease_remaining

    def fencing_token(self, partition: Any) -> FencingToken:
        """The token of an owned `TopicPartition`, for a store that refuses former owners.

        Raises:
            NotOwnedError: This consumer does not own the partition (any more).
        """
        return self._owned.fencing_token((partition.topic, partition.partition))

    def assignment(self) -> list[Any]:
        """The owned partitions, as `confluent_kafka.TopicPartition` without offsets."""
        return self._owned.topic_partitions()

    def poll(self, timeout: float = -1) -> Any:
        """Return the next message, or None when none arrived within `timeout` seconds.

        A timeout below 0 waits for ever. As with confluent-kafka, a message may carry an error
        instead of a record: ask `message.error()`. Callbacks run in here.

        Raises:
            RuntimeError: The consumer is closed, or its background thread died (the cause is
                attached).
        """
        self._refuse_if_closed()
        messages = self._delivery.collect(1, timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Return up to `num_messages` messages, fewer when `timeout` seconds have passed.

        A timeout below 0 waits until the batch is full.

        Raises:
            RuntimeError: As for `poll`.
        """
        self._refuse_if_closed()
        return self._delivery.collect(num_messages, timeout)

    def commit(
        self,
        message: Any = None,
        offsets: Iterable[Any] | None = None,
        *,
        asynchronous: bool = True,
    ) -> list[Any] | None:
        """Commit one message, the given offsets, or everything that was handed out.

        Args:
            message: Commits the offset behind this message.
            offsets: Commits these `TopicPartition` offsets: the next offsets to read.
            asynchronous: Return at once; the outcome goes to the `on_commit` setting. With broker
                fencing, and near the end of the lease, the call waits all the same.

        Returns:
            The committed partitions, or None for an asynchronous commit.

        Raises:
            NotOwnedError: This consumer does not own one of the partitions (any more).
            StraySubscriberError: Another consumer subscribes under the group's name.
            KafkaException: The broker refused the commit, or did not answer.
            RuntimeError: The consumer is closed.
        """
        self._refuse_if_closed()
        to_commit = self._commits.offsets_to_commit(message, offsets)
        self._owned.require_committable(to_commit)
        return self._commits.commit(to_commit, asynchronous=asynchronous)

    def store_offsets(self, message: Any = None, offsets: Iterable[Any] | None = None) -> None:
        """Mark everything below these offsets as processed, to be committed in due course.

        Args:
            message: Marks everything up to and including this message.
            offsets: Marks everything below these `TopicPartition` offsets.

        Raises:
            SettingError: `enable.auto.offset.store=false` is not set.
            NotOwnedError: This consumer does not own one of the partitions (any more).
            RuntimeError: The consumer is closed.
        """
        self._refuse_if_closed()
        if self._settings.auto_store:
            raise SettingError("store_offsets needs enable.auto.offset.store=false")
        to_commit = self._commits.offsets_to_commit(message, offsets or ())
        self._owned.require_owned(to_commit)
        self._commits.processed.update(to_commit)

    def pause(self, partitions: list[Any]) -> None:
        """Stop fetching from owned partitions; poll nevertheless, or the consumer is lost."""
        self._consumer.pause(partitions)

    def resume(self, partitions: list[Any]) -> None:
        """Fetch again from paused partitions."""
        self._consumer.resume(partitions)

    def seek(self, partition: Any) -> None:
        """Continue an owned partition at another offset; what was fetched of it is dropped.

        Raises:
            NotOwnedError: This consumer does not own the partition (any more).
        """
        pair = (partition.topic, partition.partition)
        self._owned.require_owned([pair])
        self._owned.fetched.drop(pair)
        self._commits.seek(pair, partition.offset)
        self._consumer.seek(partition)

    def position(self, partitions: list[Any]) -> list[Any]:
        """The offsets behind the last messages that were returned."""
        return list(self._consumer.position(partitions))

    def close(self, timeout: float | None = None) -> None:
        """Give up every partition, commit what counts as processed, and leave the group.

        The record handed out last does not count as processed. `on_revoke` is called. When the
        member could not leave within `timeout` seconds (default: twice `timers.commit`), the
        planner evicts it, and its partitions wait for that. Closing twice does nothing.

        Raises:
            Exception: The first error of a callback, after the member has left.
        """
        if self._closed:
            return
        self._closed = True
        failure = self._delivery.close(self._leave_seconds if timeout is None else timeout)
        self._consumer.close()
        self._owned.close()
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            # The block ended without an error, so the last record is processed too.
            self._commits.count_handed_out()
        self.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the consumer is closed")

    def _bind(self, callback: Callback) -> Callable[[list[Any]], object]:
        def call(partitions: list[Any]) -> object:
            return None if callback is None else callback(self, partitions)

        return call
