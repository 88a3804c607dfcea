"""`PublishedPlans`: the newest published plan of a group, read with confluent-kafka.

A thread reads the group's partition of `levelwind.assignments` from its beginning, since the topic
is compacted, and then goes on. It needs no daemon: while the topic does not exist, or brokers do
not answer, there is no plan, and the members assign by their local strategy.
"""

from __future__ import annotations

import logging
import weakref
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.clients.idle_connections import with_idle_connections
from levelwind.assignors.protocol.records import (
    GroupRecord,
    PlanShard,
    Rejection,
    Tombstone,
    decode,
)
from levelwind.assignors.protocol.records.shards import planned_assignments
from levelwind.assignors.protocol.topics import Topics, partition_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger("levelwind.clients.classic")

POLL_SECONDS = 0.5
METADATA_TIMEOUT_SECONDS = 5.0
RETRY_SECONDS = 5.0
"""Wait before the topic is looked for again."""
GONE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - confluent's own names
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
)
"""Codes of a topic that is gone, and may be made again, with another number of partitions."""


class PlanMailbox:
    """The newest plan of a group, from the records of its partition in the order of the log."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._shards: dict[int, PlanShard] = {}
        self.newest: PublishedPlan | None = None

    def take(self, key: bytes | None, value: bytes | None) -> bool:
        """Take in a record; return whether the newest plan has changed.

        A record that cannot be read, and a plan without all of its shards, change nothing.
        """
        record = decode("assignments", key, value)
        match record:
            case Rejection(reason=reason, other_version=True):
                _log.warning("a record of levelwind.assignments is passed over: %s", reason)
            case PlanShard(group=self._group) as shard:
                self._shards[shard.shard] = shard
            case GroupRecord(group=self._group) as plan:
                return self._take_plan(plan)
            case Tombstone(key=("g", self._group)):
                return self._replace(None)
            case _:
                pass
        return False

    def _take_plan(self, plan: GroupRecord) -> bool:
        if plan.mode != "published":  # members follow by themselves, or nobody does
            return self._replace(None)
        epoch = PlanEpoch(plan.planner_epoch, plan.group_epoch)
        if self.newest is not None and epoch <= self.newest.epoch:
            return False  # the same plan, written again
        assignments = planned_assignments(plan, self._shards)
        if assignments is None:
            _log.warning("plan %s of group %s lacks a shard", plan.plan_id, self._group)
            return False
        return self._replace(PublishedPlan(epoch=epoch, assignments=assignments))

    def _replace(self, plan: PublishedPlan | None) -> bool:
        changed = plan != self.newest
        self.newest = plan
        return changed


class PublishedPlans:
    """Source of a group's plans for one member; reads in a thread of its own."""

    def __init__(
        self, config: Mapping[str, Any], group: str, *, prefix: str = Topics().prefix
    ) -> None:
        """Configure the source; nothing connects before the member joins.

        Args:
            config: librdkafka's settings of the connection: `bootstrap.servers`, and security.
            group: id of the group.
            prefix: prefix of levelwind's topics.
        """
        self._config = {
            "client.id": "levelwind-plans",
            **with_idle_connections(config),
            "group.id": f"levelwind-plans-{group}",  # required, and never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        self._group = group
        self._topic = Topics(prefix).assignments
        self._begin()
        self._newest: PublishedPlan | None = None
        self._closing = Event()
        self._first_look = Event()  # everything was read once, or it cannot be read for now
        self._thread: Thread | None = None
        self._notify: Callable[[], Callable[[], None] | None] = lambda: None

    def follow(self, notify: Callable[[], None]) -> None:
        """Begin to read; see `PlanSource`.

        Raises:
            RuntimeError: the system gives no thread; the next call asks for one again.
        """
        method = hasattr(notify, "__self__")
        self._notify = weakref.WeakMethod(notify) if method else lambda: notify
        if self._thread is None or not self._thread.is_alive():
            thread = Thread(
                target=_read,
                args=(weakref.ref(self), self._closing),
                daemon=True,
                name=f"levelwind-plans-{self._group}",
            )
            thread.start()
            self._thread = thread

    def newest(self, timeout: float) -> PublishedPlan | None:
        """The newest plan; see `PlanSource`."""
        if timeout:
            self._first_look.wait(timeout)
        return self._newest

    def close(self) -> None:
        """End the thread; without this it ends when the member's assignor is no longer used."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def open_reader(self) -> Any:
        """A consumer at the beginning of the group's partition; None while there is no topic."""
        reader: Any = None
        try:
            reader = Consumer(self._config)
            found = reader.list_topics(self._topic, timeout=METADATA_TIMEOUT_SECONDS).topics
            layout = found.get(self._topic)
            if layout is not None and layout.error is None and layout.partitions:
                number = partition_for(self._group, len(layout.partitions))
                reader.assign([TopicPartition(self._topic, number, 0)])
                self._begin()
                return reader
        except KafkaException as error:
            _log.warning("plans of group %s cannot be read yet: %s", self._group, error)
        self._first_look.set()
        if reader is not None:
            reader.close()
        return None

    def _begin(self) -> None:
        """Begin to read a log; the plan of a former one stays until this one was read."""
        self._mailbox = PlanMailbox(self._group)
        self._next_offset = 0
        self._caught_up = False

    def take(self, message: Any) -> bool:
        """Take in what the reader got; return False if that topic is gone."""
        error = message.error()
        ends = error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001
        if error is not None and not ends:
            _log.warning("plans of group %s: %s", self._group, error)
            return error.code() not in GONE
        if message.offset() < self._next_offset:  # it was made again
            return False
        self._next_offset = message.offset()
        if ends:
            self._caught_up = True
        else:
            self._mailbox.take(message.key(), message.value())
        if self._caught_up:
            self._publish()
        return True

    def _publish(self) -> None:
        """Show the newest plan of what was read, and notify the member if it is another one."""
        former, self._newest = self._newest, self._mailbox.newest
        self._first_look.set()
        if self._newest != former and (notify := self._notify()) is not None:
            notify()


def _read(source: weakref.ref[PublishedPlans], closing: Event) -> None:
    """Read until the source is closed or gone; the body of the thread."""
    reader: Any = None
    try:
        while not closing.is_set():
            plans = source()
            if plans is None:
                return
            if reader is None:
                reader = plans.open_reader()
            del plans
            if reader is None:
                closing.wait(RETRY_SECONDS)
                continue
            message = reader.poll(POLL_SECONDS)
            plans = source()
            if message is not None and plans is not None and not plans.take(message):
                reader.close()
                reader = None
            del plans
    finally:
        if reader is not None:
            reader.close()
