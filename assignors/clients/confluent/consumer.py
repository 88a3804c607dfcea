"""`ManagedConsumer`: a confluent-kafka consumer that follows levelwind's assignments.

The application uses it like `confluent_kafka.Consumer`, with `poll`, `consume`, `commit` and
`close`, but never subscribes. The planner adds and removes partitions, always revoking before it
grants; both happen inside `poll`, so callbacks run in the caller's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeAlias

from confluent_kafka import Consumer

from levelwind.assignors.clients.confluent.application_callbacks import (
    CallbackErrors,
    require_function,
)
from levelwind.assignors.clients.confluent.committing.commit_errors import StraySubscriberError
from levelwind.assignors.clients.confluent.committing.granted_offsets import NotOwnedError
from levelwind.assignors.clients.confluent.committing.offsets import CommitTracker
from levelwind.assignors.clients.confluent.committing.transactions import TransactionalCommits
from levelwind.assignors.clients.confluent.delivery import Delivery
from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
from levelwind.assignors.clients.confluent.owned_partitions import OwnedPartitions
from levelwind.assignors.clients.confluent.ownership_evidence import FencingToken, OwnershipChange
from levelwind.assignors.clients.confluent.partition_calls import PartitionCalls
from levelwind.assignors.clients.confluent.settings import (
    RENEW_COMMITS_SECONDS,
    Fencing,
    SettingError,
    client_settings,
    first_life,
    member_capacity,
    member_priority,
    member_profile,
)
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol import transactional_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from levelwind.assignors.handover.member_state import Phase

__all__ = [
    "FencingToken",
    "ManagedConsumer",
    "NotOwnedError",
    "OwnershipChange",
    "SettingError",
    "StraySubscriberError",
]

MOST_MESSAGES = 1_000_000
ITERATION_SECONDS = 1.0
"""Longest time that iteration waits before it asks whether the consumer was closed."""

Callback: TypeAlias = "Callable[[ManagedConsumer, list[Any]], object] | None"


class ManagedConsumer(PartitionCalls):
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
    record handed out last counts as processed too. Iterating over it polls until it is closed.

    Args:
        config: librdkafka's settings, under their own names. Those that the hand-over must own
            (`group.id`, `session.timeout.ms` and others) raise `SettingError`. Those in a
            `default.topic.config` count as if they were beside it, and win, as in confluent-kafka.
        group: The consumer group; its partitions must be managed by levelwind.
        topics: Names of the topics to read; not empty. One that begins with `^` is a pattern, as
            in `subscribe` of confluent-kafka: the daemon matches it as topics come and go.
            docs/clients.md has the syntax. No pattern matches topics that begin with `__`, nor
            levelwind's own.
        instance: Name of this member. A process that restarts under the same name gets its
            partitions back, so give each process a lasting name of its own; two live processes
            with one name evict each other. By default host name, process id and a random part.
        rack: Rack of this process, as in the brokers' `broker.rack`. Also sets `client.rack`,
            unless `config` sets it. An empty one counts as none.
        capacity: Share of the load that this member can take, relative to the other members;
            above 0. It may be set anew at any time.
        priority: Rank of this member for strategies that prefer members (`failover`): a higher
            number is preferred. It may be set anew at any time.
        on_assign: Called with (consumer, partitions) after partitions were added, once for each
            part of a grant that begins. Each partition carries the offset at which reading starts.
        on_revoke: Called with (consumer, partitions) before their offsets are committed and the
            partitions are removed.
        on_lost: Called with (consumer, partitions) when partitions may already have another
            owner: their offsets can no longer be committed.
        fencing: "broker" sends each commit in a transaction, under one transactional id for the
            group and the instance. The brokers then refuse commits of a life that was followed by
            another or that the planner evicted, however late they arrive. Every commit then waits
            for the brokers, an asynchronous one too. With "none" a commit that was sent in time
            may arrive late and put the group's offset back, never beyond what was processed.
        after_subscribers: Join only once no consumer subscribes under the group's name: for a group
            that moves from `subscribe` to this client. Otherwise such a consumer is logged as an
            error, since the brokers refuse all commits while it is there.
        renew_commits: Seconds after which a partition's commit is made again where no other one
            was made meanwhile. The brokers count a managed group as one without members, and forget
            its commits one by one after `offsets.retention.minutes`; keep this far below that and
            below `transactional.id.expiration.ms`.
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
        after_subscribers: bool = False,
        renew_commits: float = RENEW_COMMITS_SECONDS,
        prefix: str = "levelwind.",
        timers: Timers | None = None,
        journal: Callable[[OwnershipChange], object] | None = None,
    ) -> None:
        timers = timers or Timers()
        self._callback_errors = CallbackErrors()
        config = self._callback_errors.guard_settings(config)
        callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        for name, callback in {**callbacks, "journal": journal}.items():
            require_function(name, callback)
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
        self._settings = client_settings(
            config, profile=profile, timers=timers, renew_commits=renew_commits
        )
        member = first_life(profile, timers)
        self._leave_seconds = 2 * timers.commit
        self._closing = self._closed = False
        transactions = (
            None
            if self._settings.transactions is None
            else TransactionalCommits(
                self._settings.transactions,
                former_id=transactional_ids.former(prefix, profile.group, profile.instance),
            )
        )
        self._follower = AssignmentFollower(
            member=member,
            settings=self._settings,
            prefix=prefix,
            transactions=transactions,
            after_subscribers=after_subscribers,
        )
        self._commits = CommitTracker(
            self._settings, timers=timers, follower=self._follower, transactions=transactions
        )
        reporting = self._settings.with_throttle_callback(self._follower.obstacles.throttled)
        self._consumer: Any = Consumer({**reporting.consumer, "on_commit": self._commits.on_answer})
        self._commits.consumer = self._consumer
        self._owned = OwnedPartitions(
            consumer=self._consumer,
            follower=self._follower,
            commits=self._commits,
            start_timeout=timers.start_timeout,
            pins_latest=self._settings.pins_latest,
            callbacks={name: self._bind(callback) for name, callback in callbacks.items()},
            journal=None if journal is None else self._callback_errors.guard(journal),
        )
        self._delivery = Delivery(
            follower=self._follower,
            owned=self._owned,
            commits=self._commits,
            callback_errors=self._callback_errors,
        )
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
    def capacity(self) -> float:
        """Share of the load that this member can take, relative to the others.

        Another one is announced at once. The planner makes a plan for it as for a member that
        joins; partitions move as with any plan.

        Raises:
            SettingError: The value is no number between 1e-6 and 1e6.
        """
        return self._follower.profile.capacity

    @capacity.setter
    def capacity(self, capacity: float) -> None:
        self._follower.weigh(member_capacity(capacity), self.priority)

    @property
    def priority(self) -> int:
        """Rank of this member for strategies that prefer members; set anew as `capacity`.

        Raises:
            SettingError: The value is no integer of 32 bits.
        """
        return self._follower.profile.priority

    @priority.setter
    def priority(self, priority: int) -> None:
        self._follower.weigh(self.capacity, member_priority(priority))

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

    def poll(self, timeout: float = -1) -> Any:
        """Return the next message, or None when none arrived within `timeout` seconds.

        A timeout below 0 waits for ever. As with confluent-kafka, a message may carry an error
        instead of a record: ask `message.error()`. Callbacks run in here.

        Raises:
            Exception: The first error of a callback since the last call. What the callback was
                called for is done all the same, and the next call returns the messages.
            RuntimeError: The consumer is closed, a callback calls this, or the consumer's
                background thread died (the cause is attached).
        """
        self._refuse_if_closed()
        messages = self._delivery.collect(1, timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Return up to `num_messages` messages, fewer when `timeout` seconds have passed.

        A timeout below 0 waits until the batch is full.

        Raises:
            Exception: As for `poll`.
            RuntimeError: As for `poll`.
            ValueError: `num_messages` is not between 0 and 1,000,000.
        """
        self._refuse_if_closed()
        if not 0 <= num_messages <= MOST_MESSAGES:
            raise ValueError(f"num_messages: expected 0 to {MOST_MESSAGES:,}, got {num_messages}")
        return self._delivery.collect(num_messages, timeout)

    def wakeup(self) -> None:
        """Let a running `poll` or `consume` return without messages, or else the next one.

        Any thread may call this.
        """
        self._delivery.woken.set()

    def hand_back(self, messages: list[Any]) -> None:
        """Take back what the last `poll` or `consume` returned, to be returned again.

        For applications that could not take the messages on, as a task that was cancelled.

        Raises:
            RuntimeError: The consumer is closed.
        """
        self._refuse_if_closed()
        self._delivery.hand_back(messages)

    def __iter__(self) -> Iterator[Any]:
        """Yield messages as `poll` returns them, with errors among them, until `close`."""
        while not self._closed:
            message = self.poll(ITERATION_SECONDS)
            if message is not None:
                yield message

    def close(self, timeout: float | None = None) -> None:
        """Give up every partition, commit what counts as processed, and leave the group.

        The record handed out last does not count as processed. `on_revoke` is called. When the
        member could not leave within `timeout` seconds (default: twice `timers.commit`), the
        planner evicts it, and its partitions wait for that. Closing twice does nothing.

        Raises:
            Exception: The first error of a callback, after the member has left.
        """
        if self._closing:
            return
        self._closing = True
        # `on_revoke` may still commit.
        self._delivery.close(self._leave_seconds if timeout is None else timeout)
        self._closed = True
        self._consumer.close()
        self._owned.close()
        self._callback_errors.raise_first()

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

    def _bind(self, callback: Callback) -> Callable[[list[Any]], object]:
        def call(partitions: list[Any]) -> object:
            return None if callback is None else callback(self, partitions)

        return self._callback_errors.guard(call)
