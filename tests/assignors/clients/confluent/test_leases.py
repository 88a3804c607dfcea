"""Leases of consumers with real brokers: who cannot prove that it is up to date stops by itself."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from threading import Thread

import pytest
from confluent_kafka import Producer, TopicPartition

from levelwind.assignors.clients.confluent.reading.assignments_reader import EndReached, RecordRead
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberRecord
from levelwind.clients.confluent import NotOwnedError, Phase
from levelwind_testing.kafka.jumping_clock import step_of
from levelwind_testing.kafka.managed_consumers import (
    committed,
    poll_until,
    produce,
    spread,
)
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytestmark = pytest.mark.integration
TIMERS = Timers().scaled(0.25)
BEATS = round(TIMERS.hold / TIMERS.heartbeat) + 1
"""Heartbeats in which a lease that nothing renews is over."""
FOLLOWER = """
import signal
from levelwind.clients.confluent import ManagedConsumer
from levelwind.assignors.clients.confluent.reading.assignments_reader import EndReached, RecordRead
from levelwind.assignors.handover.timers import Timers
consumer = ManagedConsumer(
    {{"bootstrap.servers": {bootstrap!r}, "auto.offset.reset": "earliest",
      "auto.commit.interval.ms": 50, "log_level": 2}},
    group={group!r},
    topics=[{topic!r}],
    instance="i0",
    prefix={prefix!r},
    timers=Timers().scaled(0.25),
    on_lost=lambda _, partitions: print("lost", len(partitions), flush=True),
)
records = 0
while True:
    message = consumer.poll(0.01)
    if message is not None:
        records += 1
        print("record", message.partition(), message.offset(), flush=True)
        if records == 299:
            # What is on its way to the brokers at a stop arrives after it.
            consumer.commit(asynchronous=False)
        if records == 300:
            # Between two polls: a stop within one may fall behind its last look at the lease.
            signal.raise_signal(signal.SIGSTOP)
"""


@pytest.fixture
def consumer(cluster, topic, plan, make_consumer):
    """A consumer that owns all six partitions and has read a record."""
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "first")])
    consumer = make_consumer(planner, "i0")
    assert poll_until(consumer, len) == ["first"]
    consumer.planner = planner
    return consumer


class Reading:
    """The consumer's reading of the assignments, which a test holds up."""

    def __init__(self, cluster, consumer):
        self._consumer = consumer
        self._reader = consumer._follower._reader
        self._cluster = cluster
        self._post = self._reader._post
        self._withheld = []

    def hold_up(self):
        """Let the member read nothing more, while somebody goes on to write."""
        self._reader._post = self._withhold
        partition = self._reader._position
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap})
        producer.produce(
            partition.topic, key=b'["planner"]', value=b"{}", partition=partition.partition
        )
        assert producer.flush(10) == 0

    def be_suspended(self, boot):
        """Let time pass, in which the member announces itself, until its lease is near its end."""
        consumer = self._consumer
        boot.stop()
        for _ in range(BEATS):
            if consumer.phase is Phase.ACTIVE:
                wait_until("announcement", announced_since(consumer, boot.jump(step_of(consumer))))
        assert consumer.phase is Phase.SUSPENDED

    def go_on(self):
        self._reader._post = self._post
        for message in self._withheld:
            self._post(message)

    def _withhold(self, message):
        if isinstance(message, (RecordRead, EndReached)):
            self._withheld.append(message)
        else:
            self._post(message)


@pytest.fixture
def reading(cluster, consumer):
    return Reading(cluster, consumer)


def test_a_dead_planner_ends_no_lease(cluster, topic, consumer, boot):
    consumer.planner.stop()
    boot.pass_for(consumer, 2 * TIMERS.hold, lambda: consumer.consume(0, 0))
    assert consumer.phase is Phase.ACTIVE
    assert TIMERS.guard < consumer.lease_remaining() <= TIMERS.hold
    produce(cluster, topic, [(0, "second")])
    assert poll_until(consumer, len) == ["second"]


def test_a_member_that_can_write_but_not_read_is_lost(
    cluster, topic, consumer, reading, boot, caplog
):
    lost = consumer.incarnation
    reading.hold_up()
    produce(cluster, topic, [(0, "never handed out by this life")])
    reading.be_suspended(boot)
    assert 0 < consumer.lease_remaining() <= TIMERS.guard

    def fetched():
        assert consumer.poll(0) is None
        return len(consumer._owned.fetched)

    wait_until("record that is kept back", fetched)
    boot.jump(consumer.lease_remaining() + 0.001)
    assert consumer.lease_remaining() == 0
    wait_until("loss", lambda: consumer.phase is Phase.LOST)
    with pytest.raises(NotOwnedError, match="lost"):
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    with pytest.raises(NotOwnedError, match="lost"):
        consumer.fencing_token(TopicPartition(topic, 0))
    boot.go_on()
    with caplog.at_level(logging.WARNING):
        poll_until(consumer, lambda _: consumer.incarnation != lost)
    assert "reason=lease_over" in caplog.text
    heartbeats = [r.heartbeat for r in announcements(consumer) if r.incarnation == lost]
    assert heartbeats[-1] - heartbeats[0] >= TIMERS.hold / TIMERS.heartbeat - 2
    reading.go_on()
    # What was handed out first was never committed: its partitions were lost with the lease.
    assert poll_until(consumer, len)[0] in ("first", "never handed out by this life")


def test_a_member_that_can_read_but_not_write_is_lost(cluster, topic, consumer, boot):
    announcer, lost = consumer._follower._announcer, consumer.incarnation
    working = announcer._producer
    announcer._producer = Producer(
        {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 1000, "log_level": 0}
    )
    produce(cluster, topic, [(0, "second")])
    boot.stop()
    for _ in range(BEATS):
        wait_until("read to the end", read_since(consumer, boot.jump(step_of(consumer))))
    assert consumer.phase is Phase.LOST
    assert consumer.poll(0) is None
    boot.go_on()
    announcer._producer = working
    poll_until(consumer, lambda _: consumer.incarnation != lost)
    boot.pass_for(consumer, TIMERS.grant, lambda: consumer.consume(0, 0))
    poll_until(consumer, lambda _: consumer.incarnation != lost and consumer.assignment())


def test_a_suspended_member_keeps_what_it_fetched_and_goes_on_once_it_is_renewed(
    cluster, topic, consumer, reading, boot, monkeypatch
):
    incarnation, numbers = consumer.incarnation, list(range(50))
    consumer.planner.stop()  # the clock stands still below: it shall evict nobody
    reading.hold_up()
    reading.be_suspended(boot)
    produce(cluster, topic, [(0, number) for number in numbers])

    def fetched():
        assert consumer.consume(50, 0) == []
        return len(consumer._owned.fetched)

    wait_until("records that are kept back", fetched)
    serve, served = consumer._owned.serve, []
    monkeypatch.setattr(consumer._owned, "serve", lambda *args: (served.append(args), serve(*args)))
    waiting = Thread(target=consumer.commit, kwargs={"asynchronous": False}, daemon=True)
    waiting.start()
    wait_until("commit that waits", lambda: len(served) > 5)
    assert waiting.is_alive(), "a commit near the end of the lease waits"
    assert committed(cluster, consumer.group, topic) == {}
    reading.go_on()
    wait_until("renewal", lambda: consumer.phase is Phase.ACTIVE)
    boot.go_on()
    waiting.join(GENEROUS_SECONDS)
    assert not waiting.is_alive()
    assert committed(cluster, consumer.group, topic) == {0: 1}
    assert poll_until(consumer, lambda values: len(values) == 50) == list(map(str, numbers))
    assert consumer.incarnation == incarnation


def test_a_process_that_was_stopped_past_its_lease_hands_out_and_commits_nothing(
    cluster, topic, plan, make_consumer, boot, timers
):
    planner = plan(lambda live: {live[-1]: {(topic, p) for p in range(6)}} if live else {})
    produce(cluster, topic, [(n % 6, n) for n in range(600)])
    code = FOLLOWER.format(
        bootstrap=cluster.bootstrap, group=planner.group, topic=topic, prefix=planner.topics.prefix
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    output = Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")), daemon=True)
    output.start()
    try:
        wait_until("300 records", lambda: len(lines) == 300)
        assert os.waitid(os.P_PID, process.pid, os.WSTOPPED).si_status == signal.SIGSTOP
        produce(cluster, topic, [(n % 6, n) for n in range(600, 6000)])
        second = make_consumer(planner, "i1")
        second.poll(0)
        boot.pass_for(second, timers.dead_after)
        last = {str(n) for n in range(5994, 6000)}
        poll_until(second, lambda values: len(values) >= 5400 and last <= set(values))
        second.poll(0)
        second.commit(asynchronous=False)
        assert committed(cluster, planner.group, topic) == dict.fromkeys(range(6), 1000)
        process.send_signal(signal.SIGCONT)
        # Its next life announces itself again and again: what the stopped one did lies behind.
        poll_until(second, lambda _: len(announced_by_next_life(planner, "i0")) >= 3)
    finally:
        process.kill()
        process.wait()
        output.join(10)
        process.stdout.close()
    assert lines[300:] == ["lost 6\n"]
    assert committed(cluster, planner.group, topic) == dict.fromkeys(range(6), 1000)


def test_a_later_owner_has_a_higher_token(cluster, topic, consumer, make_consumer):
    partition = TopicPartition(topic, 0)
    first = consumer.fencing_token(partition)
    assert first[:3] == (consumer.group, topic, 0)
    consumer.planner.share = lambda live: {i: {(topic, 0)} if i == "i1" else set() for i in live}
    successor = make_consumer(consumer.planner, "i1")
    waiting = Thread(target=poll_until, args=(successor, lambda _: successor.assignment()))
    waiting.start()
    poll_until(consumer, lambda _: successor.assignment())
    waiting.join(40)
    assert successor.fencing_token(partition).epoch > first.epoch
    with pytest.raises(NotOwnedError):
        consumer.fencing_token(partition)


def announced_since(consumer, moment):
    return lambda: consumer._follower.lease.announced_at >= moment


def read_since(consumer, moment):
    return lambda: consumer._follower.lease.read_at >= moment or consumer.phase is Phase.LOST


def announcements(consumer):
    return [record for record in consumer.planner.records if isinstance(record, MemberRecord)]


def announced_by_next_life(planner, instance):
    records = [r for r in planner.records if isinstance(r, MemberRecord) and r.instance == instance]
    return [record for record in records if record.incarnation != records[0].incarnation]
