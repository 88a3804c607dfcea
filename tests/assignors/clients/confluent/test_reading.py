"""Calls of `ManagedConsumer` that confluent-kafka's `Consumer` has too, with real brokers."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, Consumer, TopicPartition

from levelwind.assignors.protocol.records import MemberRecord
from levelwind.clients.confluent import NotOwnedError, SettingError
from levelwind_testing.kafka.managed_consumers import committed, poll_until, produce, spread
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

BY_HAND = {"enable.auto.commit": False}


def offsets(messages, partition):
    return [message.offset() for message in messages if message.partition() == partition]


def read(consumer, number):
    """Return messages, `number` of them at least, as they come one after the other."""
    messages = []

    def enough():
        if len(messages) < number and (message := consumer.poll(0.2)):
            messages.append(message)
        return len(messages) >= number

    wait_until(f"{number} messages", enough, pause=0, shown=lambda: messages)
    return messages


@pytest.fixture
def consumer(cluster, topic, plan, make_consumer):
    """A consumer that may own partitions 0 and 1, each with ten records; it has read four."""
    owned = {(topic, 0), (topic, 1)}
    planner = plan(lambda live: {i: owned if i == live[0] else set() for i in live})
    produce(cluster, topic, [(p, n) for n in range(10) for p in (0, 1)])
    consumer = make_consumer(planner, "i0", BY_HAND)
    consumer.planner = planner
    consumer.read = read(consumer, 4)
    # What was fetched in one go waits in the consumer, whichever partition it is of.
    fetched = consumer._owned.fetched
    wait_until("16 messages", lambda: fetched.fetch(100, 0.1) or len(fetched) == 16, pause=0)
    return consumer


def later_ones(cluster, topic, consumer):
    """Two messages of partition 1 that are written one after the other, and all before them."""
    messages = []
    for number in range(2):
        produce(cluster, topic, [(1, f"later {number}")])
        messages += read(consumer, 1)
    return messages


def test_a_paused_partition_stands_still_and_goes_on_where_it_stood(
    cluster, topic, consumer, make_consumer
):
    paused, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    before = [len(offsets(consumer.read, p)) for p in (0, 1)]
    consumer.pause([paused])
    messages = read(consumer, 10 - before[1])
    # Another plan that leaves the partition here does not resume it.
    make_consumer(consumer.planner, "i1")
    poll_until(consumer, lambda _: len(consumer.planner.live) == 2)
    messages += later_ones(cluster, topic, consumer)
    assert offsets(messages, 0) == []
    assert offsets(messages, 1) == list(range(before[1], 12))
    positions = [p.offset for p in consumer.position([paused, other])]
    assert positions == [before[0] or OFFSET_INVALID, 12]
    consumer.resume([paused])
    assert offsets(read(consumer, 10 - before[0]), 0) == list(range(before[0], 10))
    consumer.pause([paused])
    consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert consumer.position([paused])[0].offset == OFFSET_INVALID
    assert offsets(later_ones(cluster, topic, consumer), 0) == []
    consumer.resume([paused])
    assert offsets(read(consumer, 10), 0) == list(range(10))


def test_calls_about_partitions_of_others_are_refused_as_a_whole(cluster, topic, consumer):
    own, other = TopicPartition(topic, 0, 3), TopicPartition(topic, 5, 3)
    for call in (consumer.pause, consumer.resume, consumer.position):
        with pytest.raises(NotOwnedError, match=r"\[5\]"):
            call([own, other])
    with pytest.raises(NotOwnedError, match=r"\[5\]"):
        consumer.seek(other)
    with pytest.raises(NotOwnedError, match=r"\[5\]"):
        consumer.commit(offsets=[own, other], asynchronous=False)
    assert committed(cluster, consumer.group, topic) == {}
    assert len(read(consumer, 16)) == 16, "nothing was paused"
    for arguments in (
        {"message": consumer.read[0], "offsets": [own]},
        {"offsets": [TopicPartition(topic, 0, OFFSET_BEGINNING)]},
    ):
        with pytest.raises(ValueError, match=r"exclude|no offset"):
            consumer.commit(**arguments)


def test_it_answers_what_a_consumer_of_confluent_kafka_answers(cluster, topic, consumer):
    partition = TopicPartition(topic, 0, 4, metadata="by hand")
    consumer.commit(offsets=[partition], asynchronous=False)
    consumer.commit(message=consumer.read[-1], asynchronous=False)
    plain = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": consumer.group})
    asked = [TopicPartition(topic, p) for p in range(3)]
    at = consumer.read[0].timestamp()[1]
    for question in (
        lambda one: [(p.offset, p.metadata) for p in one.committed(asked, timeout=10)],
        lambda one: one.get_watermark_offsets(TopicPartition(topic, 5), timeout=10),
        lambda one: sorted(one.list_topics(topic, timeout=10).topics[topic].partitions),
        lambda one: topic in one.list_topics(timeout=10).topics,
        lambda one: [
            p.offset for p in one.offsets_for_times([TopicPartition(topic, 0, at)], timeout=10)
        ],
    ):
        assert question(consumer) == question(plain)
    assert consumer.get_watermark_offsets(partition, cached=True) == (0, 10)
    plain.close()


def test_a_partition_may_be_sought_while_it_is_assigned(cluster, topic, plan, make_consumer):
    produce(cluster, topic, [(0, n) for n in range(10)])
    consumer = make_consumer(
        plan(spread(topic)),
        "i0",
        on_assign=lambda consumer, _: consumer.seek(TopicPartition(topic, 0, 7)),
    )
    values = []
    for message in consumer:
        values.append(message.value().decode())
        if len(values) == 3:
            consumer.close()
    assert values == ["7", "8", "9"]


def test_another_capacity_and_priority_are_announced_at_once(topic, plan, make_consumer, boot):
    planner = plan(spread(topic))
    consumer = make_consumer(planner, "i0", capacity=2)
    poll_until(consumer, lambda _: consumer.assignment())
    with pytest.raises(SettingError, match="capacity"):
        consumer.capacity = 0
    boot.pass_for(consumer, 2.0)  # what it was assigned is acknowledged
    boot.stop()  # no heartbeat is due any more
    consumer.capacity, consumer.priority = 0.5, 7

    def announced():
        return [(r.capacity, r.priority) for r in planner.records if isinstance(r, MemberRecord)]

    wait_until("announcement", lambda: announced()[-1] == (0.5, 7))
    assert announced()[0] == (2.0, 0)
    boot.go_on()


def test_a_callback_cannot_ask_for_messages(topic, plan, make_consumer):
    consumer = make_consumer(plan(spread(topic)), "i0", on_assign=lambda one, _: one.poll(0))
    with pytest.raises(RuntimeError, match="callback"):
        poll_until(consumer, lambda _: consumer.assignment())
