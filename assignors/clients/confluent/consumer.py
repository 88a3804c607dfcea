"""`ManagedConsumer`: a confluent-kafka consumer that follows levelwind's assignments instead of the broker's.

It is used like `confluent_kafka.Consumer`, with `poll`, `consume`, `commit` and `close`, but never subscribes: partitions come
and go as the planner says, revoke before grant, and so inside of `poll` that the callbacks run in the caller's thread.

At least once. With `enable.auto.commit` (the default) a record counts as processed when the application comes for the next
one; what is processed is committed every `auto.commit.interval.ms`, whenever a partition is given up, and at the end. With
`enable.auto.offset.store=false` a record counts when `store_offsets` says so: for applications that work on records after
`poll` returned others. With `enable.auto.commit=false` nothing is committed but by `commit`; `on_revoke` is the last
chance for a partition.

A consumer must poll at least every `max.poll.interval.ms`; past that it is out, whatever it owned is lost, and commits are
refused until it polls again.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from uuid import uuid4

from confluent_kafka import Consumer, libversion

from assignors.clients.confluent.follower import (
    AssignmentFollower,
    clock,
    log_event,
)
from assignors.clients.confluent.offsets import (
    CommitTracker,
    NotOwnedError,
    StraySubscriberError,
)
from assignors.clients.confluent.owned_partitions import (
    OwnedPartitions,
    OwnershipChange,
)
from assignors.clients.confluent.settings import (
    SettingError,
    client_settings,
)
from assignors.handover.member_machine import (
    MemberMachine,
    MemberProfile,
    Phase,
)
from assignors.handover.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType


__all__ = [
    "ManagedConsumer",
    "NotOwnedError",
    "OwnershipChange",
    "SettingError",
    "StraySubscriberError",
]

POLL_SLICE_SECONDS = 0.05
"""The longest that an order of the planner's waits for a poll to return."""
Callback: TypeAlias = "Callable[[ManagedConsumer, list[Any]], object] | None"


class ManagedConsumer:
    """A consumer whose partitions levelwind assigns; one thread uses it.

    Args:
        config: librdkafka's settings, under their own names.
        group: the consumer group.
        topics: the topics that it wants to read.
        instance: this member's name, the same after a restart: it gets its partitions back. One process a name.
        rack: where it runs, as `broker.rack` says it; also `client.rack` unless `config` says otherwise.
        capacity: how much it can do, relative to the other members.
        priority: higher goes first where a strategy asks for it.
        on_assign: called with (consumer, partitions), their offsets set, when they were added.
        on_revoke: likewise, before they are committed and removed.
        on_lost: likewise, when they may be another's already: nothing of them can be committed.
        prefix: of levelwind's topics.
        timers: of the hand-over; the same as the planner's.
        journal: hears each change of ownership.
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
        prefix: str = "levelwind.",
        timers: Timers | None = None,
        journal: Callable[[OwnershipChange], object] | None = None,
    ) -> None:
        self._timers = timers or Timers()
        self._profile = _profile(
            group=group,
            topics=topics,
            instance=instance,
            rack=rack,
            priority=priority,
            capacity=capacity,
        )
        self._settings = client_settings(config, group=group, rack=rack, timers=self._timers)
        self._closed = False
        member = MemberMachine(profile=self._profile, timers=self._timers, incarnation=uuid4().hex)
        self._follower = AssignmentFollower(member=member, settings=self._settings, prefix=prefix)
        self._commits = CommitTracker(
            self._settings, timers=self._timers, identity=self._follower.identity
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
            pins_latest=self._settings.from_latest and self._settings.auto_commit,
            callbacks={name: self._bind(callback) for name, callback in callbacks.items()},
            journal=journal,
        )
        self._follower.start()

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._profile.group

    @property
    def instance(self) -> str:
        """This member's name."""
        return self._profile.instance

    @property
    def incarnation(self) -> str:
        """The name of its present life."""
        return self._follower.incarnation

    @property
    def phase(self) -> Phase:
        """Where it stands in the hand-over."""
        return self._follower.phase

    def assignment(self) -> list[Any]:
        """The partitions that it owns."""
        return self._owned.topic_partitions()

    def poll(self, timeout: float = -1) -> Any:
        """The next record, an error as confluent-kafka reports it, or None after `timeout` seconds (below 0: never)."""
        messages = self._collect(1, timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Up to so many records, fewer after `timeout` seconds."""
        return self._collect(num_messages, timeout)

    def commit(
        self,
        message: Any = None,
        offsets: Iterable[Any] | None = None,
        *,
        asynchronous: bool = True,
    ) -> list[Any] | None:
        """Commit a message's offset, offsets, or everything that was handed out.

        Raises:
            NotOwnedError: one of the partitions is not this consumer's (any more).
            StraySubscriberError: another consumer subscribes under the group's name.
            KafkaException: the broker refused, or did not answer.
        """
        self._refuse_if_closed()
        to_commit = self._commits.offsets_to_commit(message, offsets)
        self._owned.require_owned(to_commit)
        return self._commits.commit(to_commit, asynchronous=asynchronous)

    def store_offsets(self, message: Any = None, offsets: Iterable[Any] | None = None) -> None:
        """Say that everything below these offsets is processed; with `enable.auto.offset.store=false`."""
        self._refuse_if_closed()
        if self._settings.auto_store:
            raise SettingError("store_offsets needs enable.auto.offset.store=false")
        to_commit = self._commits.offsets_to_commit(message, offsets or ())
        self._owned.require_owned(to_commit)
        self._commits.processed.update(to_commit)

    def pause(self, partitions: list[Any]) -> None:
        """Stop fetching from partitions that it owns."""
        self._consumer.pause(partitions)

    def resume(self, partitions: list[Any]) -> None:
        """Go on fetching."""
        self._consumer.resume(partitions)

    def seek(self, partition: Any) -> None:
        """Go on elsewhere in a partition that it owns."""
        pair = (partition.topic, partition.partition)
        self._owned.require_owned([pair])
        self._owned.drop_fetched(pair)
        self._commits.forget([pair])
        self._consumer.seek(partition)

    def position(self, partitions: list[Any]) -> list[Any]:
        """The offsets behind the last records read."""
        return list(self._consumer.position(partitions))

    def close(self, timeout: float | None = None) -> None:
        """Give everything up, commit what counts as processed, leave. The record handed out last does not count."""
        if self._closed:
            return
        self._closed = True
        deadline = clock() + (2 * self._timers.commit if timeout is None else timeout)
        self._follower.set_polling(polling=True)
        self._follower.leave()
        failure: Exception | None = None
        while self._follower.is_alive() and clock() < deadline:
            try:
                self._perform_orders()
                self._owned.serve(POLL_SLICE_SECONDS)
            except Exception as error:  # noqa: BLE001 - of a callback: leaving comes first, then it is raised
                failure = failure or error
        if self._follower.is_alive():
            self._follower.abandon()
            hint = "the planner will evict this member"
            log_event(
                logging.WARNING, "member.close_timed_out", **self._follower.identity(), hint=hint
            )
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
            # Nobody failed over the last record: it is processed too.
            self._commits.count_handed_out()
        self.close()

    def _collect(self, number: int, timeout: float) -> list[Any]:
        self._refuse_if_closed()
        deadline = None if timeout is None or timeout < 0 else clock() + timeout
        self._follower.set_polling(polling=True)
        try:
            self._commits.count_handed_out()
            messages: list[Any] = []
            while True:
                self._perform_orders()
                self._commits.commit_in_time()
                left = (
                    POLL_SLICE_SECONDS
                    if deadline is None
                    else max(min(POLL_SLICE_SECONDS, deadline - clock()), 0.0)
                )
                messages += self._owned.fetch(number - len(messages), left)
                if len(messages) >= number or (deadline is not None and clock() >= deadline):
                    # An order that came while the batch was being filled took some of its partitions away.
                    messages = self._owned.still_owned(messages)
                    self._commits.hand_out(messages)
                    return messages
        finally:
            self._follower.set_polling(polling=False)

    def _perform_orders(self) -> None:
        if self._follower.failure is not None:
            raise RuntimeError("the follower's thread died") from self._follower.failure
        self._owned.perform_orders()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the consumer is closed")

    def _bind(self, callback: Callback) -> Callable[[list[Any]], object]:
        def call(partitions: list[Any]) -> object:
            return None if callback is None else callback(self, partitions)

        return call


def _profile(
    *,
    group: str,
    topics: Sequence[str],
    instance: str | None,
    rack: str | None,
    priority: int,
    capacity: float,
) -> MemberProfile:
    if isinstance(topics, str) or not topics or not all(topics):
        raise SettingError(f"topics: expected a list of names, got {topics!r}")
    if not group or not capacity > 0:
        raise SettingError(
            f"group must be named and capacity above 0, not {group!r} and {capacity!r}"
        )
    return MemberProfile(
        group=group,
        instance=instance or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}",
        topics=tuple(sorted(set(topics))),
        rack=rack,
        priority=priority,
        capacity=float(capacity),
        client="confluent-kafka",
        client_version=libversion()[0],
    )
