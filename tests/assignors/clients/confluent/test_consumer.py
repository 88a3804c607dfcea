"""`ManagedConsumer` with real brokers, driven by a scripted planner."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import MemberRecord
from levelwind.assignors.protocol.topics import Topics, partition_for
from levelwind.clients.confluent import NotOwnedError, Phase, StraySubscriberError
from levelwind_testing.kafka.managed_consumers import (
    PollingApplication,
    committed,
    poll_until,
    produce,
    spread,
)
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration
TIMERS = Timers().scaled(0.25)


@pytest.fixture
def work():
    """Let an application work with a consumer in a thread of its own: `work(consumer)`."""
    workers = []

    def start(consumer):
        workers.append(PollingApplication(consumer))
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()


def check_one_owner_at_a_time(journal):
    owner = {}
    for line in journal:
        topic_partition = (line.topic, line.partition)
        if line.event == "gained":
            assert topic_partition not in owner, (
                f"{topic_partition} was {owner[topic_partition]}'s when {line.instance} gained it"
            )
            owner[topic_partition] = line.instance
        else:
            assert owner.pop(topic_partition) == line.instance
    return {topic_partition: instance for (_, topic_partition), instance in owner.items()}


def test_partitions_move_between_three_members_without_a_record_lost_or_a_second_owner(
    cluster, topic, plan, make_consumer, work
):
    planner, journal = plan(spread(topic)), []
    workers = [work(make_consumer(planner, "i0", journal=journal.append))]
    produce(cluster, topic, [(n % 6, f"a{n}") for n in range(300)])
    wait_until("300 records", lambda: len(workers[0].seen) >= 300)
    workers.append(work(make_consumer(planner, "i1", journal=journal.append)))
    workers.append(work(make_consumer(planner, "i2", journal=journal.append)))
    everything = {f"a{n}" for n in range(300)}
    batches = 0

    def settled_under_traffic():
        nonlocal batches
        records = [(n % 6, f"b{batches}.{n}") for n in range(30)]
        produce(cluster, topic, records)
        batches += 1
        everything.update(value for _, value in records)
        return batches >= 20 and planner.ledger.settled and len(planner.live) == 3

    wait_until("three owners", settled_under_traffic)
    wait_until(
        "last record",
        lambda: {value for worker in workers for _, value in worker.seen} == everything,
    )
    owners = check_one_owner_at_a_time(journal)
    assert [owners[p] for p in range(6)] == ["i0", "i1", "i2", "i0", "i1", "i2"]
    epoch = planner.ledger.epoch
    workers[1].stop()
    wait_until("two owners", lambda: planner.ledger.settled and planner.ledger.epoch > epoch)
    wait_until(
        "six owned partitions",
        lambda: (
            sum(line.event == "gained" for line in journal)
            - sum(line.event == "released" for line in journal)
            == 6
        ),
    )
    for worker in workers:
        worker.stop()
    assert check_one_owner_at_a_time(journal) == {}
    assert committed(cluster, planner.group, topic) == dict.fromkeys(range(6), 50 + 5 * batches)
    # Across a hand-over, only records that were not yet committed are delivered again.
    again = sum(len(worker.seen) for worker in workers) - len(everything)
    assert again < 50


def test_a_partition_is_granted_only_after_its_owner_has_let_it_go(
    cluster, topic, plan, make_consumer
):
    share = {"i0": {(topic, 0)}}
    planner, journal, released = (
        plan(lambda live: {i: share.get(i, set()) for i in live}),
        [],
        Event(),
    )

    def heartbeats():
        return sum(isinstance(r, MemberRecord) and r.instance == "i1" for r in planner.records)

    def slow(_consumer, partitions):
        assert partitions
        before = heartbeats()
        wait_until("two heartbeats of the next owner", lambda: heartbeats() >= before + 2)
        released.set()

    first = make_consumer(planner, "i0", journal=journal.append, on_revoke=slow)
    second = make_consumer(planner, "i1", journal=journal.append)
    poll_until(first, lambda _: first.assignment())
    share = {"i1": {(topic, 0)}}
    worker = Thread(target=poll_until, args=(first, lambda _: second.assignment()))
    worker.start()
    while not second.assignment():
        second.poll(0.05)
        assert released.is_set() or not second.assignment()
    worker.join(40)
    assert [(line.event, line.instance) for line in journal] == [
        ("gained", "i0"),
        ("released", "i0"),
        ("gained", "i1"),
    ]


def test_a_record_is_committed_once_the_application_came_for_the_next_one(
    cluster, topic, plan, make_consumer
):
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "first"), (0, "second")])
    consumer = make_consumer(planner, "i0")
    assert poll_until(consumer, len) == ["first"]
    consumer.close()
    assert committed(cluster, planner.group, topic) == {}, (
        "nothing showed that the first was processed"
    )
    successor = make_consumer(planner, "i0")
    with successor:
        assert poll_until(successor, lambda values: len(values) == 2) == ["first", "second"]
    assert committed(cluster, planner.group, topic) == {0: 2}


def test_a_failing_application_gets_its_record_again(cluster, topic, plan, make_consumer):
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "poison")])

    def fail():
        with make_consumer(planner, "i0") as consumer:
            poll_until(consumer, len)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    assert committed(cluster, planner.group, topic) == {}


def test_an_application_that_commits_for_itself_may_commit_only_what_it_owns(
    cluster, topic, plan, make_consumer
):
    planner = plan(lambda live: {"i0": {(topic, 0)}} if live else {})
    produce(cluster, topic, [(0, "a"), (0, "b")])
    consumer = make_consumer(planner, "i0", {"enable.auto.commit": False})
    poll_until(consumer, len)
    consumer.commit(asynchronous=False)
    assert committed(cluster, planner.group, topic) == {0: 1}
    with pytest.raises(NotOwnedError, match=r"\[1\]"):
        consumer.commit(offsets=[TopicPartition(topic, 1, 5)], asynchronous=False)
    poll_until(consumer, len)
    consumer.close()
    assert committed(cluster, planner.group, topic) == {0: 1}
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


def test_stored_offsets_are_what_is_committed(cluster, topic, plan, make_consumer):
    planner = plan(spread(topic))
    produce(cluster, topic, [(3, n) for n in range(10)])
    consumer = make_consumer(planner, "i0", {"enable.auto.offset.store": False})
    poll_until(consumer, lambda values: len(values) == 10)
    consumer.store_offsets(offsets=[TopicPartition(topic, 3, 4)])
    consumer.close()
    assert committed(cluster, planner.group, topic) == {3: 4}


def test_a_batch_is_what_was_asked_for(cluster, topic, plan, make_consumer):
    planner = plan(spread(topic))
    produce(cluster, topic, [(n % 6, n) for n in range(50)])
    consumer = make_consumer(planner, "i0")
    poll_until(consumer, len)
    assert len(consumer.consume(40, 60)) == 40
    consumer._owned.fetched.fetch(9, 60)
    assert len(consumer.consume(40, 0.1)) == 9


def test_without_a_commit_latest_means_the_same_offset_to_the_next_owner(
    cluster, topic, plan, make_consumer
):
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "before")])
    consumer = make_consumer(planner, "i0", {"auto.offset.reset": "latest"})
    poll_until(consumer, lambda _: consumer.assignment())
    consumer.close()
    produce(cluster, topic, [(0, "between")])
    successor = make_consumer(planner, "i0", {"auto.offset.reset": "latest"})
    assert poll_until(successor, len) == ["between"]


@pytest.mark.parametrize("committed", [False, True])
def test_a_new_partition_is_read_from_its_beginning_unless_it_has_a_commit(
    cluster, topic, plan, make_consumer, committed
):
    planner = plan(spread(topic), new_from={topic: 1})
    produce(cluster, topic, [(0, "old"), (1, "new 1"), (1, "new 2")])
    if committed:
        application = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": planner.group})
        application.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
        application.close()
    consumer = make_consumer(planner, "i0", {"auto.offset.reset": "latest"})
    found = poll_until(consumer, lambda _: len(consumer.assignment()) == 6)
    produce(cluster, topic, [(0, "last")])
    expected = ["new 2", "last"] if committed else ["new 1", "new 2", "last"]
    found += poll_until(consumer, lambda got: len(found + got) == len(expected))
    assert sorted(found) == sorted(expected)


def test_a_killed_member_is_evicted_and_its_successor_under_the_same_name_waits(
    cluster, topic, plan, make_consumer, boot
):
    planner, journal = plan(spread(topic)), []
    script = f"""
from levelwind.clients.confluent import ManagedConsumer
from levelwind.assignors.handover.timers import Timers
consumer = ManagedConsumer(
    {{"bootstrap.servers": {cluster.bootstrap!r}, "auto.offset.reset": "earliest"}},
    group={planner.group!r},
    topics=[{topic!r}],
    instance="i0",
    prefix={planner.topics.prefix!r},
    timers=Timers().scaled(0.25),
)
while True:
    consumer.poll(0.1)
    if len(consumer.assignment()) == 6:
        print("owner", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"owner\n"
        dead = planner.live["i0"]
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    produce(cluster, topic, [(2, "later")])
    consumer = make_consumer(planner, "i0", journal=journal.append)
    poll_until(consumer, lambda _: planner.evictions)
    boot.pass_for(consumer, TIMERS.grant, lambda: consumer.consume(0, 0))
    assert poll_until(consumer, len) == ["later"]
    assert consumer.incarnation != dead
    read_back = next(at for at in planner.evictions.values())
    assert all(line.at >= read_back + TIMERS.grant for line in journal)


def test_a_subscriber_under_the_same_group_is_logged_as_an_error(
    cluster, topic, plan, make_consumer, caplog
):
    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "a"), (0, "b")])
    consumer = make_consumer(planner, "i0", {"auto.commit.interval.ms": 200})
    poll_until(consumer, len)
    stray = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": planner.group})
    stray.subscribe([topic])
    try:
        wait_until("assignment", lambda: stray.poll(0.1) is None and stray.assignment(), pause=0)
        with pytest.raises(StraySubscriberError, match="stop it, or give it a group of its own"):
            consumer.commit(asynchronous=False)
        with caplog.at_level(logging.ERROR):
            poll_until(consumer, lambda _: "member.commit_refused" in caplog.text)
    finally:
        stray.close()


@pytest.mark.parametrize("timers", [Timers()], ids=["a lease that outlasts the jump"])
def test_an_application_that_does_not_poll_loses_its_partitions_and_joins_again(
    cluster, topic, plan, make_consumer, boot, caplog, timers
):
    planner, lost = plan(spread(topic)), []
    consumer = make_consumer(
        planner,
        "i0",
        {"max.poll.interval.ms": 3000},
        on_lost=lambda _, topic_partitions: lost.append(len(topic_partitions)),
    )
    poll_until(consumer, lambda _: consumer.assignment())
    former_incarnation = consumer.incarnation
    produce(cluster, topic, [(0, "a")])
    poll_until(consumer, len)
    boot.jump(3.1)
    wait_until("loss", lambda: consumer.phase is Phase.LOST)
    assert "member.poll_overdue" in caplog.text
    with pytest.raises(NotOwnedError, match="lost"):
        consumer.commit(asynchronous=False)
    assert poll_until(consumer, len) == ["a"]
    assert lost == [6]
    assert consumer.incarnation != former_incarnation


def test_a_record_that_cannot_be_read_is_refused_and_the_last_good_one_kept(
    cluster, topic, plan, make_consumer
):
    planner = plan(spread(topic))
    consumer = make_consumer(planner, "i0")
    poll_until(consumer, lambda _: consumer.assignment())
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    key = f'["m","{planner.group}","i0","{consumer.incarnation}"]'
    producer.produce(
        planner.topics.assignments,
        key=key,
        value='{"v":2}',
        partition=planner.partition,
        headers={"epoch": b"77"},
    )
    assert producer.flush(10) == 0

    def nacks(_):
        return [r.nack for r in planner.records if isinstance(r, MemberRecord) and r.nack]

    poll_until(consumer, nacks)
    assert (nacks(0)[0].epoch, nacks(0)[0].code) == (77, "unknown-v")
    assert len(consumer.assignment()) == 6


def test_a_consumer_that_starts_before_the_topics_exist_logs_it_and_waits(
    cluster, topic, plan, make_consumer, make_topics, caplog
):
    planner = plan(spread(topic), topics=False)
    produce(cluster, topic, [(0, "a")])
    consumer = make_consumer(planner, "i0")
    poll_until(consumer, lambda _: "member.waiting_for_topics" in caplog.text)
    assert consumer.phase is Phase.JOINING
    names = Topics(planner.topics.prefix)
    make_topics({names.members: 2, names.assignments: 2})
    planner.start()
    assert poll_until(consumer, len) == ["a"]


def test_a_failing_callback_does_not_keep_a_member_from_leaving(
    cluster, topic, plan, make_consumer
):
    def fail(_consumer, _partitions):
        raise ArithmeticError

    planner, journal = plan(spread(topic)), []
    produce(cluster, topic, [(0, "a"), (0, "b")])
    consumer = make_consumer(planner, "i0", on_revoke=fail, journal=journal.append)
    poll_until(consumer, lambda values: len(values) == 2)
    with pytest.raises(ArithmeticError):
        consumer.close()
    assert committed(cluster, planner.group, topic) == {0: 1}
    assert check_one_owner_at_a_time(journal) == {}
    wait_until("departure", lambda: not planner.live)
    assert planner.evictions == {}


def test_what_is_given_up_in_close_may_be_committed_in_the_callback(
    cluster, topic, plan, make_consumer
):
    refused = []

    def commit(consumer, _):
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
        with pytest.raises(RuntimeError) as error:
            consumer.poll(0)
        refused.append(str(error.value))

    planner = plan(spread(topic))
    produce(cluster, topic, [(0, "a"), (0, "b")])
    consumer = make_consumer(planner, "i0", {"enable.auto.commit": False}, on_revoke=commit)
    poll_until(consumer, lambda values: len(values) == 2)
    consumer.close()
    assert committed(cluster, planner.group, topic) == {0: 2}
    assert refused == ["a callback cannot ask for messages"]
    with pytest.raises(RuntimeError, match="closed"):
        consumer.commit()


def test_a_member_without_time_to_leave_announces_nothing_and_is_evicted(
    cluster, topic, plan, make_consumer, caplog, boot, timers
):
    planner = plan(spread(topic))
    consumer = make_consumer(planner, "i0")
    poll_until(consumer, lambda _: consumer.assignment())
    consumer.close(timeout=0)
    boot.jump(timers.dead_after)
    assert "member.close_timed_out" in caplog.text
    wait_until(
        "eviction",
        lambda: (
            [incarnation.incarnation for incarnation in planner.evictions] == [consumer.incarnation]
        ),
    )


def test_a_consumer_can_be_closed_while_it_waits(cluster, topic, plan, make_consumer):
    consumer = make_consumer(plan(spread(topic), topics=False), "i0")
    consumer.poll(0.2)
    consumer.close()
    assert consumer.assignment() == []


def test_a_group_has_the_partition_that_librdkafka_and_java_would_give_it(
    cluster, fresh, make_topics
):
    name = fresh("placed")
    make_topics({name: 7})
    producer, placed = (
        Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2"}),
        {},
    )
    groups = ["orders", "a", "ab", "abc", "abcd", "größe", "a-much-longer-name-of-a-group"]
    for group in groups:
        producer.produce(
            name,
            key=group.encode(),
            value=b"",
            on_delivery=lambda _, m: placed.__setitem__(m.key().decode(), m.partition()),
        )
    assert producer.flush(10) == 0
    assert placed == {group: partition_for(group, 7) for group in groups}
