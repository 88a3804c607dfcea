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
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, TopicPartition, libversion

from assignors.clients.confluent_commits import Commits, NotOwnedError, StraySubscriberError, raise_error_of
from assignors.clients.confluent_follower import Follower, clock, say
from assignors.clients.confluent_settings import SettingError, split
from assignors.handover import events as ev
from assignors.handover.member import Member, Phase, Profile
from assignors.handover.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from assignors.protocol.ranges import TopicPartition as Pair

__all__ = ["ManagedConsumer", "NotOwnedError", "Ownership", "SettingError", "StraySubscriberError"]

SLICE = 0.05
"""The longest that an order of the planner's waits for a poll to return."""
RETRY = 0.5
"""Between two attempts to fetch committed offsets."""
FETCH_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A line of the journal: written before the first record of a partition is asked for, and after it was let go.

    `at` is in seconds of the machine's boot clock, the same for all processes of a machine.
    """

    at: float
    event: Literal["gained", "released"]
    group: str
    instance: str
    incarnation: str
    topic: str
    partition: int


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
        on_assign: Callable[[ManagedConsumer, list[Any]], object] | None = None,
        on_revoke: Callable[[ManagedConsumer, list[Any]], object] | None = None,
        on_lost: Callable[[ManagedConsumer, list[Any]], object] | None = None,
        prefix: str = "levelwind.",
        timers: Timers | None = None,
        journal: Callable[[Ownership], object] | None = None,
    ) -> None:
        if isinstance(topics, str) or not topics or not all(topics):
            raise SettingError(f"topics: expected a list of names, got {topics!r}")
        if not group or not capacity > 0:
            raise SettingError(f"group must be named and capacity above 0, not {group!r} and {capacity!r}")
        timers = timers or Timers()
        settings = split(config, group=group, rack=rack, timers=timers)
        profile = Profile(
            group=group,
            instance=instance or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}",
            topics=tuple(sorted(set(topics))),
            rack=rack,
            priority=priority,
            capacity=float(capacity),
            client="confluent-kafka",
            client_version=libversion()[0],
        )
        self._profile = profile
        self._settings = settings
        self._timers = timers
        self._callbacks = {"assign": on_assign, "revoke": on_revoke, "lost": on_lost}
        self._journal = journal
        self._owned: set[Pair] = set()
        self._buffer: deque[Any] = deque()
        self._retry_at = 0.0
        self._closed = False
        self._commits = Commits(settings, timers=timers, names=self._names)
        self._consumer: Any = Consumer({**settings.consumer, "on_commit": self._commits.answered})
        self._commits.consumer = self._consumer
        member = Member(profile=profile, timers=timers, incarnation=uuid4().hex)
        self._follower = Follower(member=member, settings=settings, prefix=prefix)
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
        return self._follower.name_of_life

    @property
    def phase(self) -> Phase:
        """Where it stands in the hand-over."""
        return self._follower.phase

    def assignment(self) -> list[Any]:
        """The partitions that it owns."""
        return _places(sorted(self._owned))

    def poll(self, timeout: float = -1) -> Any:
        """The next record, an error as confluent-kafka reports it, or None after `timeout` seconds (below 0: never)."""
        messages = self._collect(1, timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Up to so many records, fewer after `timeout` seconds."""
        return self._collect(num_messages, timeout)

    def commit(
        self, message: Any = None, offsets: Iterable[Any] | None = None, *, asynchronous: bool = True
    ) -> list[Any] | None:
        """Commit a message's offset, offsets, or everything that was handed out.

        Raises:
            NotOwnedError: one of the partitions is not this consumer's (any more).
            StraySubscriberError: another consumer subscribes under the group's name.
            KafkaException: the broker refused, or did not answer.
        """
        self._refuse_if_closed()
        wanted = self._commits.wanted(message, offsets)
        self._refuse_if_not_owned(wanted)
        return self._commits.commit(wanted, asynchronous=asynchronous)

    def store_offsets(self, message: Any = None, offsets: Iterable[Any] | None = None) -> None:
        """Say that everything below these offsets is processed; with `enable.auto.offset.store=false`."""
        self._refuse_if_closed()
        if self._settings.auto_store:
            raise SettingError("store_offsets needs enable.auto.offset.store=false")
        wanted = self._commits.wanted(message, offsets or ())
        self._refuse_if_not_owned(wanted)
        self._commits.processed.update(wanted)

    def pause(self, partitions: list[Any]) -> None:
        """Stop fetching from partitions that it owns."""
        self._consumer.pause(partitions)

    def resume(self, partitions: list[Any]) -> None:
        """Go on fetching."""
        self._consumer.resume(partitions)

    def seek(self, partition: Any) -> None:
        """Go on elsewhere in a partition that it owns."""
        self._refuse_if_not_owned({(partition.topic, partition.partition): partition.offset})
        self._buffer = deque(
            m for m in self._buffer if (m.topic(), m.partition()) != (partition.topic, partition.partition)
        )
        self._commits.forget([(partition.topic, partition.partition)])
        self._consumer.seek(partition)

    def position(self, partitions: list[Any]) -> list[Any]:
        """The offsets behind the last records read."""
        return list(self._consumer.position(partitions))

    def close(self, timeout: float | None = None) -> None:
        """Give everything up, commit what counts as processed, leave. The record handed out last does not count."""
        if self._closed:
            return
        self._closed = True
        wait = 2 * self._timers.commit if timeout is None else timeout
        deadline = clock() + wait
        self._follower.application_is(here=True)
        self._follower.leave()
        try:
            while self._follower.is_alive() and clock() < deadline:
                self._perform_orders()
                self._hold_back(self._consumer.poll(SLICE))
        finally:
            if self._follower.is_alive():
                self._say(
                    logging.WARNING, "member.close_timed_out", hint="the planner will evict this member"
                )
            self._consumer.close()
            for pair in sorted(self._owned):
                self._write_journal("released", pair)
            self._owned.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            # Nobody failed over the last record: it is processed too.
            self._commits.count_handed_out()
        self.close()

    # Records.

    def _collect(self, number: int, timeout: float) -> list[Any]:
        self._refuse_if_closed()
        deadline = None if timeout is None or timeout < 0 else clock() + timeout
        self._follower.application_is(here=True)
        try:
            self._commits.count_handed_out()
            messages: list[Any] = []
            while True:
                self._perform_orders()
                self._commits.commit_in_time()
                left = SLICE if deadline is None else max(min(SLICE, deadline - clock()), 0.0)
                messages += self._fetch(number - len(messages), left)
                if len(messages) >= number or (deadline is not None and clock() >= deadline):
                    return self._hand_out(messages)
        finally:
            self._follower.application_is(here=False)

    def _fetch(self, number: int, timeout: float) -> list[Any]:
        if self._buffer:
            return [self._buffer.popleft() for _ in range(min(number, len(self._buffer)))]
        if number == 1:
            message = self._consumer.poll(timeout)
            return [] if message is None else [message]
        return list(self._consumer.consume(number, timeout))

    def _hand_out(self, messages: list[Any]) -> list[Any]:
        # An order that came while the batch was being filled took some of its partitions away.
        ours = [
            message
            for message in messages
            if message.error() or (message.topic(), message.partition()) in self._owned
        ]
        self._commits.hand_out(ours)
        return ours

    def _hold_back(self, message: Any) -> None:
        if message is not None:
            self._buffer.append(message)

    # The planner's orders.

    def _perform_orders(self) -> None:
        if self._follower.failure is not None:
            raise RuntimeError("the follower's thread died") from self._follower.failure
        orders = self._follower.orders
        while orders:
            order = orders[0]
            # What was ordered before a loss is void: only the loss is performed.
            if self._follower.lost.is_set() and not isinstance(order, ev.Lose):
                orders.popleft()
                continue
            match order:
                case ev.Grant():
                    if not self._grant(order.partitions):
                        return
                case ev.Revoke():
                    orders.popleft()
                    self._revoke(order.partitions)
                case ev.Lose():
                    orders.popleft()
                    self._lose(order.reason)

    def _grant(self, partitions: frozenset[Pair]) -> bool:
        """Start on partitions where the group's commits stand now; False: try again later."""
        if clock() < self._retry_at:
            return False
        places = _places(sorted(partitions))
        try:
            places = self._consumer.committed(places, timeout=FETCH_TIMEOUT)
            raise_error_of(places)
            self._pin(places)
        except KafkaException as error:
            self._say(logging.WARNING, "member.grant_retried", error=error.args[0].str())
            self._retry_at = clock() + RETRY
            return False
        if self._follower.lost.is_set():
            return False
        self._follower.orders.popleft()
        for pair in sorted(partitions):
            self._write_journal("gained", pair)
        self._owned |= partitions
        self._commits.start(places)
        self._consumer.incremental_assign(places)
        # librdkafka remembers that a partition was paused when it was last given up.
        self._consumer.resume(places)
        self._say(logging.INFO, "member.granted", partitions=len(places), owned=len(self._owned))
        try:
            self._call("assign", places)
        finally:
            self._follower.post(ev.GrantFinished())
        return True

    def _pin(self, places: list[Any]) -> None:
        # Without a commit "latest" would mean another offset to each owner, and what came between two would be skipped.
        if not (self._settings.from_latest and self._settings.auto_commit):
            return
        for place in places:
            if place.offset < 0:
                _, place.offset = self._consumer.get_watermark_offsets(
                    TopicPartition(place.topic, place.partition), timeout=FETCH_TIMEOUT
                )
                self._commits.processed[place.topic, place.partition] = place.offset

    def _revoke(self, partitions: frozenset[Pair]) -> None:
        started = clock()
        places = _places(sorted(partitions))
        self._say(logging.INFO, "member.revoking", partitions=len(places))
        self._consumer.pause(places)
        try:
            self._call("revoke", places)
        finally:
            outcome = self._commits.decide(partitions, self._serve)
            self._let_go(partitions)
            self._follower.post(ev.RevokeFinished(outcome))
            self._say(
                logging.INFO,
                "member.revoked",
                partitions=len(places),
                owned=len(self._owned),
                commit=outcome,
                seconds=round(clock() - started, 3),
            )

    def _lose(self, reason: str) -> None:
        lost = frozenset(self._owned)
        self._say(logging.WARNING, "member.lost", reason=reason, partitions=len(lost))
        self._let_go(lost)
        try:
            self._call("lost", _places(sorted(lost)))
        finally:
            quiet = self._commits.quiet
            self._follower.lost.clear()
            self._follower.post(ev.LoseFinished(uuid4().hex, quiet=quiet))

    def _let_go(self, partitions: frozenset[Pair]) -> None:
        self._consumer.incremental_unassign(_places(sorted(partitions & self._owned)))
        self._owned -= partitions
        self._buffer = deque(
            m for m in self._buffer if m.error() or (m.topic(), m.partition()) in self._owned
        )
        self._commits.forget(partitions)
        for pair in sorted(partitions):
            self._write_journal("released", pair)

    def _serve(self) -> None:
        """Let the client work on its answers."""
        self._hold_back(self._consumer.poll(0.02))

    def _call(self, name: str, places: list[Any]) -> None:
        if places and (callback := self._callbacks[name]) is not None:
            callback(self, places)

    def _write_journal(self, event: Literal["gained", "released"], pair: Pair) -> None:
        if self._journal is not None:
            self._journal(
                Ownership(
                    at=clock(),
                    event=event,
                    group=self.group,
                    instance=self.instance,
                    incarnation=self.incarnation,
                    topic=pair[0],
                    partition=pair[1],
                )
            )

    def _refuse_if_not_owned(self, wanted: dict[Pair, int]) -> None:
        if self._follower.lost.is_set():
            raise NotOwnedError("this member is lost: its partitions may be another's; poll to join anew")
        if strange := sorted(wanted.keys() - self._owned):
            shown = ", ".join(f"{topic}[{number}]" for topic, number in strange[:5])
            raise NotOwnedError(f"not owned by {self.instance}: {shown}; see assignment()")

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the consumer is closed")

    def _say(self, level: int, event: str, **fields: object) -> None:
        say(level, event, **self._names(), **fields)

    def _names(self) -> dict[str, object]:
        return {"group": self.group, "instance": self.instance, "incarnation": self.incarnation}


def _places(pairs: Iterable[Pair]) -> list[Any]:
    return [TopicPartition(topic, number) for topic, number in pairs]
