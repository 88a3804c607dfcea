"""A managed consumer without brokers: a scripted librdkafka, and a follower that a test steps."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from queue import Empty
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.clients.confluent.following.follower import AssignmentFollower
from levelwind.assignors.handover import member_events as ev
from levelwind.assignors.handover.member_state import Phase
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberAssignment
from levelwind.clients.confluent import AsyncManagedConsumer

UNREACHABLE = {
    "bootstrap.servers": "127.0.0.1:1",
    "auto.offset.reset": "earliest",
    "log_level": 0,
}
PATIENCE_SECONDS = 60
"""Far longer than the work of a test without brokers takes."""


def run(work):
    """Run a test's asynchronous work in a loop of its own, and return what it returns."""
    return asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))


def consumer_of(bootstrap="127.0.0.1:1", **callbacks):
    """An `AsyncManagedConsumer` without brokers, which gives up leaving after a moment."""
    return AsyncManagedConsumer(
        {"bootstrap.servers": bootstrap, "log_level": 0},
        group="g",
        topics=["t"],
        timers=Timers().scaled(0.01),
        **callbacks,
    )


def message(pair, offset):
    """A record, as confluent-kafka hands it out."""
    return SimpleNamespace(
        topic=lambda: pair[0], partition=lambda: pair[1], offset=lambda: offset, error=lambda: None
    )


class ScriptedConsumer:
    """confluent-kafka's `Consumer` of brokers that do not exist, and their `AdminClient`.

    It answers asynchronous commits from within `poll`, and calls the callbacks of its settings from
    there, as librdkafka does.
    """

    def __init__(self, config) -> None:
        self.config = config
        self.records: deque[Any] = deque()
        self.calls: deque[Any] = deque()
        """Callbacks that the next `poll` or `consume` runs."""
        self.assigned: dict[Any, int] = {}
        """Offset at which each assigned partition started."""
        self.offsets: dict[Any, int] = {}
        """What the group has committed of each partition; nothing (-1001) by default."""
        self.unreadable: dict[Any, Any] = {}
        """Error with which OffsetFetch answers for a partition."""
        self.ends: dict[Any, Any] = {}
        """End of each log, 0 by default, or the error with which its leader answers."""
        self.asked: list[frozenset[Any]] = []
        """Partitions of each question for committed offsets."""

        self.looked_up: list[str] = []
        """Topics whose leaders were asked for."""

    def list_topics(self, topic, **_options):
        self.looked_up.append(topic)

    def committed(self, partitions, **_options):
        pairs = [(each.topic, each.partition) for each in partitions]
        self.asked.append(frozenset(pairs))
        return [
            SimpleNamespace(
                topic=pair[0],
                partition=pair[1],
                offset=self.offsets.get(pair, -1001),
                error=self.unreadable.get(pair),
                metadata=None,
            )
            for pair in pairs
        ]

    def list_offsets(self, specs, **_options):
        return {each: self._end((each.topic, each.partition)) for each in specs}

    def _end(self, pair):
        end, answer = self.ends.get(pair, 0), Future()
        if isinstance(end, int):
            answer.set_result(SimpleNamespace(offset=end))
        else:
            answer.set_exception(KafkaException(end))
        return answer

    def incremental_assign(self, partitions):
        self.assigned |= {(each.topic, each.partition): each.offset for each in partitions}

    def incremental_unassign(self, partitions):
        for each in partitions:
            self.assigned.pop((each.topic, each.partition))

    def pause(self, partitions):
        pass

    resume = pause

    def poll(self, timeout):
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, number, _timeout):
        while self.calls:
            self.calls.popleft()()
        return [self.records.popleft() for _ in range(min(number, len(self.records)))]

    def commit(self, offsets, asynchronous):
        committed = [TopicPartition(each.topic, each.partition, each.offset) for each in offsets]
        self.offsets |= {(each.topic, each.partition): each.offset for each in offsets}
        if asynchronous:
            self.calls.append(lambda: self.config["on_commit"](None, committed))
            return None
        return committed

    def close(self):
        while self.calls:
            self.calls.popleft()()


class SteppedFollower(AssignmentFollower):
    """The follower, but a test steps its thread and is its planner."""

    admin: Any = None
    """The client that is asked for the ends of logs."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.announced: list[Any] = []
        self._announcer = SimpleNamespace(announce=self.announced.append, retire=lambda _key: None)
        self._epoch = 0

    def start(self):
        self._handle(ev.Started())
        self.joined = True
        self.renew()

    def is_alive(self):
        self.step()
        return self.phase is not Phase.LEFT

    def renew(self):
        """Renew the lease."""
        now = boot_seconds()
        self._handle(ev.ReadConfirmed(now))
        self._handle(ev.AnnouncementAcked(now))

    def step(self):
        """Take in what the application's thread has posted."""
        try:
            while True:
                self._take(self._mailbox.get_nowait())
        except Empty:
            self._take_held()
            self._take_rejoin()

    def assign(self, assigned):
        """Give the member these partitions, by topic, in the place of those that it has."""
        self.renew()
        self._epoch += 1
        record = MemberAssignment(
            group=self.profile.group,
            instance=self.profile.instance,
            incarnation=self.incarnation,
            planner_epoch=1,
            group_epoch=self._epoch,
            member_epoch=self._epoch,
            state="active",
            assigned=assigned,
            pending={},
            revoking={},
            rack=None,
            capacity=1.0,
            reason="",
        )
        self._handle(ev.AssignmentReceived(record))

    def overdue(self):
        """End the member's life, as if the application had not polled for too long."""
        self._handle(ev.PollOverdue())

    def end(self):
        """Close its clients."""
        self._reader.stop()
