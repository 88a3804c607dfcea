"""Grants of one consumer with real brokers: what was fetched belongs to the present one."""

from __future__ import annotations

from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from levelwind.assignors.clients.confluent.reading import assignments_reader
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberAssignment, MemberRecord, cutting, encode
from levelwind.assignors.protocol.topics import partition_for
from levelwind.clients.confluent import NotOwnedError, Phase
from levelwind_testing.kafka.managed_consumers import (
    committed,
    poll_until,
    produce,
    spread,
)
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytestmark = pytest.mark.integration
TIMERS = Timers().scaled(0.25)


class FailingConsumer(Consumer):
    """A consumer whose question for a topic's partitions fails at the given call."""

    fails_at: int
    calls = 0

    def list_topics(self, *args, **options):
        FailingConsumer.calls += 1
        if FailingConsumer.calls == FailingConsumer.fails_at:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return super().list_topics(*args, **options)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_metadata_request_that_fails_is_no_topic_of_one_partition(
    call, topic, plan, make_consumer, fresh, monkeypatch
):
    FailingConsumer.fails_at, FailingConsumer.calls = call, 0
    monkeypatch.setattr(assignments_reader, "Consumer", FailingConsumer)
    group = fresh("group")
    while partition_for(group, 2) != 1:
        group = fresh("group")
    consumer = make_consumer(plan(spread(topic), group=group), "i0")
    poll_until(consumer, lambda _: consumer.assignment())


@pytest.fixture
def moving(topic, plan):
    """A planner that gives partition 0 to one of two instances: `moving.to("i1")`."""

    class Moving:
        owner = "i0"

        def share(self, live):
            return {i: {(topic, 0)} if i == self.owner else set() for i in live}

        def to(self, instance):
            self.owner = instance

    moving = Moving()
    moving.planner = plan(moving.share)
    return moving


def test_a_batch_holds_no_records_of_an_earlier_grant(cluster, topic, moving, make_consumer, boot):
    first, second = (make_consumer(moving.planner, instance) for instance in ("i0", "i1"))
    produce(cluster, topic, [(0, n) for n in range(5)])
    batches = []
    worker = Thread(target=lambda: batches.append(first.consume(1000, 30)))
    worker.start()
    wait_until("grant", first.assignment)
    wait_until("five records", lambda: len(first._owned.fetched) == 5)
    moving.to("i1")
    wait_until("revocation", lambda: not first.assignment())
    produce(cluster, topic, [(0, n) for n in range(5, 20)])
    poll_until(second, lambda values: len(values) == 20)
    second.commit(asynchronous=False)
    moving.to("i0")
    poll_until(second, lambda _: not second.assignment() and first.assignment())
    assert committed(cluster, moving.planner.group, topic) == {0: 20}
    assert worker.is_alive()
    boot.pass_for(first, 30)
    worker.join(40)
    first.consume(1, 0)
    first.close()
    assert committed(cluster, moving.planner.group, topic) == {0: 20}
    assert batches == [[]]


def test_a_message_of_an_earlier_grant_can_be_neither_committed_nor_stored(
    cluster, topic, moving, make_consumer
):
    by_hand = {"enable.auto.commit": False, "enable.auto.offset.store": False}
    first, second = (make_consumer(moving.planner, i, by_hand) for i in ("i0", "i1"))
    produce(cluster, topic, [(0, n) for n in range(20)])
    old = []
    wait_until("18 records", lambda: old.extend(first.consume(1, 0.1)) or len(old) == 18, pause=0)
    moving.to("i1")
    polling = Thread(target=poll_until, args=(first, lambda _: second.assignment()))
    polling.start()
    poll_until(second, lambda values: len(values) >= 15)
    polling.join(40)
    second.commit(offsets=[TopicPartition(topic, 0, 15)], asynchronous=False)
    moving.to("i0")
    polling = Thread(target=poll_until, args=(second, lambda _: first.assignment()))
    polling.start()
    assert poll_until(first, len) == ["15"]
    polling.join(40)
    for message, reason in ((old[4], "begins at offset 15"), (old[17], "handed out before that")):
        with pytest.raises(NotOwnedError, match=reason):
            first.commit(message=message, asynchronous=False)
        with pytest.raises(NotOwnedError, match=reason):
            first.store_offsets(message=message)
    with pytest.raises(NotOwnedError, match="begins at offset 15"):
        first.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert committed(cluster, moving.planner.group, topic) == {0: 15}
    first.commit(message=old[15], asynchronous=False)
    assert committed(cluster, moving.planner.group, topic) == {0: 16}


def test_a_partition_that_was_paused_when_it_went_away_is_read_when_it_comes_back(
    cluster, topic, moving, make_consumer
):
    first, second = (make_consumer(moving.planner, instance) for instance in ("i0", "i1"))
    poll_until(first, lambda _: first.assignment())
    first.pause([TopicPartition(topic, 0)])
    for owner, former in ((second, first), (first, second)):
        moving.to(owner.instance)
        polling = Thread(target=poll_until, args=(former, lambda _, new=owner: new.assignment()))
        polling.start()
        poll_until(owner, lambda _, new=owner: new.assignment())
        polling.join(40)
    produce(cluster, topic, [(0, "a")])
    assert poll_until(first, len) == ["a"]


def test_librdkafka_drops_what_it_fetched_before_a_partition_was_unassigned(cluster, topic, fresh):
    produce(cluster, topic, [(0, n) for n in range(100)])
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": fresh("group"),
            "auto.offset.reset": "earliest",
        }
    )
    try:
        for start in range(10):
            consumer.incremental_assign([TopicPartition(topic, 0, start)])
            number = 3 + start % 3
            offsets = [message.offset() for message in consumer.consume(number, 60)]
            assert offsets == list(range(start, start + number))
            consumer.incremental_unassign([TopicPartition(topic, 0)])
            assert consumer.poll(0) is None
    finally:
        consumer.close()


def test_the_first_fetch_of_a_member_waits_for_no_scan_of_librdkafka(
    cluster, topic, plan, make_consumer, monkeypatch
):
    """Without a lookup in advance it comes a second after the grant."""
    produce(cluster, topic, [(0, "a")])
    planned = Event()

    def share(live):
        planned.wait(GENEROUS_SECONDS)
        return spread(topic)(live)

    consumer = make_consumer(plan(share), "i0")
    noting = Noting(consumer._consumer)
    monkeypatch.setattr(consumer._owned, "_consumer", noting)
    poll_until(consumer, lambda _: noting.calls)
    assert noting.calls == ["list_topics"], "the topic was looked up before any grant"
    planned.set()
    assert poll_until(consumer, len) == ["a"]
    assert noting.calls.index("committed") < noting.calls.index("incremental_assign")


def test_a_grant_that_cannot_be_started_is_reported(
    topic, plan, make_consumer, monkeypatch, boot, caplog
):
    planner = plan(spread(topic))
    consumer = make_consumer(planner, "i0")
    refusing = Refusing(consumer._consumer)
    monkeypatch.setattr(consumer._owned, "_consumer", refusing)

    def nacks(_=None):
        records = [r for r in planner.records if isinstance(r, MemberRecord)]
        return [r.nack.code for r in records if r.nack is not None]

    poll_until(consumer, lambda _: refusing.refused)
    boot.pass_for(consumer, TIMERS.start_timeout, lambda: consumer.consume(0, 0))
    poll_until(consumer, nacks)
    assert nacks()[0] == "start-failed"
    [line] = [line for line in caplog.text.splitlines() if "member.grant_failed" in line]
    assert float(line.partition("seconds=")[2].split()[0]) >= TIMERS.start_timeout
    assert refusing.refused > 2, "it was tried again and again"
    starting = [r for r in planner.records if isinstance(r, MemberRecord) and r.starting]
    assert starting
    assert starting[0].starting == starting[0].owned
    assert consumer.assignment() == []


@pytest.mark.parametrize("timers", [Timers()], ids=["a lease that outlasts the jump"])
def test_a_callback_that_outlasts_the_poll_interval_costs_the_member_its_life(
    cluster, topic, moving, make_consumer, caplog, boot, timers
):
    def overstay(consumer, _):
        boot.jump(3.1)
        wait_until("loss", lambda: consumer.phase is Phase.LOST)

    consumer = make_consumer(
        moving.planner, "i0", {"max.poll.interval.ms": 3000}, on_revoke=overstay
    )
    produce(cluster, topic, [(0, "a")])
    poll_until(consumer, len)
    lost = consumer.incarnation
    moving.to("i1")
    poll_until(consumer, lambda _: consumer.incarnation != lost)
    assert "member.poll_overdue" in caplog.text
    assert committed(cluster, moving.planner.group, topic) == {}
    announced = [r for r in moving.planner.records if isinstance(r, MemberRecord)]
    assert {record.max_poll_interval_ms for record in announced} == {3000}
    assert {(record.hold_ms, record.commit_ms) for record in announced} == {(20_000, 12_000)}


def test_a_member_that_the_planner_cannot_serve_logs_the_reason(
    cluster, topic, moving, make_consumer, caplog
):
    consumer = make_consumer(moving.planner, "i0")
    poll_until(consumer, lambda _: consumer.assignment())
    record = MemberAssignment(
        group=consumer.group,
        instance="i0",
        incarnation=consumer.incarnation,
        planner_epoch=1,
        group_epoch=1000,
        member_epoch=1000,
        state="refused",
        assigned={},
        pending={},
        revoking={},
        rack=None,
        capacity=1.0,
        reason="its lease is too long",
    )
    key, value = encode(record)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce(
        moving.planner.topics.assignments, key=key, value=value, partition=moving.planner.partition
    )
    assert producer.flush(10) == 0
    poll_until(consumer, lambda _: not consumer.assignment())
    assert "member.refused" in caplog.text
    assert "reason=its lease is too long" in caplog.text


def test_an_assignment_in_shards_is_followed(cluster, topic, plan, make_consumer, monkeypatch):
    monkeypatch.setattr(cutting, "WHOLE_BYTES", 20)
    planner = plan(spread(topic))
    produce(cluster, topic, [(number, number) for number in range(6)])
    first = make_consumer(planner, "i0")
    assert sorted(poll_until(first, lambda values: len(values) == 6)) == list("012345")
    second = make_consumer(planner, "i1")
    joining = Thread(target=poll_until, args=(second, lambda _: len(second.assignment()) == 3))
    joining.start()
    poll_until(first, lambda _: len(first.assignment()) == 3 and not joining.is_alive())
    joining.join(40)
    assert len(second.assignment()) == 3
    assert all(
        holding.published.shards is None and len(cutting.cut(holding.published)) > 1
        for holding in planner.ledger.holdings.values()
    )


class Noting:
    """A real consumer, and the names of what it was asked for."""

    def __init__(self, consumer):
        self._consumer = consumer
        self.calls = []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self._consumer, name)


class Refusing:
    """A real consumer, but the brokers refuse to tell the group's commits."""

    def __init__(self, consumer):
        self._consumer = consumer
        self.refused = 0

    def committed(self, *_args, **_options):
        self.refused += 1
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    def __getattr__(self, name):
        return getattr(self._consumer, name)
