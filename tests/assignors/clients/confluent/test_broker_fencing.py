"""Commits in transactions with real brokers: a former life's commit is refused."""

from __future__ import annotations

import logging
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from levelwind.assignors.protocol.records import MemberRecord
from levelwind.clients.confluent import NotOwnedError
from levelwind_testing.kafka.managed_consumers import (
    ENDURING,
    committed,
    initialise,
    poll_until,
    produce,
    spread,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def timers():
    return ENDURING


@pytest.fixture
def planner(topic, plan):
    return plan(spread(topic))


def test_processed_records_are_committed_in_transactions(cluster, topic, planner, make_consumer):
    answers = []
    config = {"on_commit": lambda error, partitions: answers.append((error, len(partitions)))}
    consumer = make_consumer(planner, "i0", config, fencing="broker")
    produce(cluster, topic, [(0, n) for n in range(4)])
    poll_until(consumer, lambda values: len(values) == 4)
    assert consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    assert committed(cluster, planner.group, topic) == {0: 2}
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)])
    assert committed(cluster, planner.group, topic) == {0: 3}
    assert answers == [(None, 1)]
    consumer.poll(0)
    consumer.close()
    assert committed(cluster, planner.group, topic) == {0: 4}
    ids = {r.transactional_id for r in planner.records if isinstance(r, MemberRecord)}
    assert ids == {f"{planner.topics.prefix}{planner.group}/i0"}


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_commit_of_a_fenced_life_is_refused_and_the_member_joins_again(
    asynchronous, cluster, topic, planner, make_consumer, caplog
):
    lost = []
    consumer = make_consumer(
        planner, "i0", fencing="broker", on_lost=lambda _, partitions: lost.append(len(partitions))
    )
    produce(cluster, topic, [(0, n) for n in range(10)])
    poll_until(consumer, lambda values: len(values) == 5)
    consumer.commit(asynchronous=False)
    fenced = consumer.incarnation
    # As the planner does before it gives an evicted member's partitions away.
    initialise(cluster.bootstrap, f"{planner.topics.prefix}{planner.group}/i0")
    poll_until(consumer, lambda values: len(values) == 3)
    with pytest.raises(NotOwnedError, match="refuse the commits of this life"):
        consumer.commit(asynchronous=asynchronous)
    assert committed(cluster, planner.group, topic) == {0: 5}
    assert "member.fenced" in caplog.text
    assert logging.ERROR in {record.levelno for record in caplog.records}
    assert poll_until(consumer, lambda values: len(values) == 5) == list("56789")
    assert consumer.incarnation != fenced
    assert lost == [6]
    consumer.commit(asynchronous=False)
    assert committed(cluster, planner.group, topic) == {0: 10}


def test_a_fenced_life_that_commits_by_itself_is_lost_and_polls_on(
    cluster, topic, planner, make_consumer
):
    lost = []
    consumer = make_consumer(
        planner,
        "i0",
        {"enable.auto.commit": True, "auto.commit.interval.ms": 50},
        fencing="broker",
        on_lost=lambda _, partitions: lost.append(len(partitions)),
    )
    produce(cluster, topic, [(0, n) for n in range(10)])
    poll_until(consumer, lambda values: len(values) == 5)
    fenced = consumer.incarnation
    initialise(cluster.bootstrap, f"{planner.topics.prefix}{planner.group}/i0")
    poll_until(consumer, lambda values: "9" in values and consumer.incarnation != fenced)
    assert lost == [6]


def test_another_process_of_the_name_fences_the_former_one(cluster, topic, planner, make_consumer):
    first = make_consumer(planner, "i0", fencing="broker")
    produce(cluster, topic, [(0, n) for n in range(10)])
    poll_until(first, lambda values: len(values) == 5)
    second = make_consumer(planner, "i0", fencing="broker")
    poll_until(second, lambda values: len(values) == 10)
    with pytest.raises(NotOwnedError):
        first.commit(asynchronous=False)
    second.poll(0)
    second.commit(asynchronous=False)
    assert committed(cluster, planner.group, topic) == {0: 10}
    first.close()
    assert committed(cluster, planner.group, topic) == {0: 10}


def test_a_life_of_a_release_with_other_ids_is_fenced(cluster, topic, planner, make_consumer):
    former = f"{planner.topics.prefix}{planner.group}/rack-a/0"
    old = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": former})
    old.init_transactions(30)
    consumer = make_consumer(planner, "rack-a/0", fencing="broker")
    produce(cluster, topic, [(0, 0)])
    poll_until(consumer, lambda values: len(values) == 1)
    consumer.commit(asynchronous=False)
    assert committed(cluster, planner.group, topic) == {0: 1}
    old.begin_transaction()
    old.produce(topic, b"late", partition=1)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(30)
    assert refused.value.args[0].code() == KafkaError._FENCED
    announced = {r.transactional_id for r in planner.records if isinstance(r, MemberRecord)}
    assert announced == {f"{planner.topics.prefix}{planner.group}/rack-a%2F0"}


class StuckProducer:
    """A producer that never returns from sending offsets, as librdkafka without a coordinator."""

    def __init__(self, producer):
        self.producer = producer
        self.released = Event()

    def __getattr__(self, name):
        return getattr(self.producer, name)

    def send_offsets_to_transaction(self, *_):
        self.released.wait()


@pytest.mark.timeout(120)
def test_a_commit_that_librdkafka_never_ends_costs_a_life_and_no_more(
    cluster, topic, planner, make_consumer
):
    consumer = make_consumer(planner, "i0", fencing="broker")
    produce(cluster, topic, [(0, n) for n in range(10)])
    poll_until(consumer, lambda values: len(values) == 5)
    commits = consumer._commits._transactions
    commits._producer = stuck = StuckProducer(commits._producer)
    life = consumer.incarnation
    with pytest.raises(NotOwnedError):
        consumer.commit(asynchronous=False)
    assert poll_until(consumer, lambda values: len(values) == 10) == list("0123456789")
    assert consumer.incarnation != life
    consumer.commit(asynchronous=False)
    assert committed(cluster, planner.group, topic) == {0: 10}
    stuck.released.set()
