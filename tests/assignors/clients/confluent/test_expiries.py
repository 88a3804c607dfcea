"""Brokers that forget soon: what they forget of others, a managed group keeps."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.cluster import Cluster
from levelwind_testing.kafka.managed_consumers import committed, poll_until, produce, spread
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

FORGETFUL = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "transactional.id.expiration.ms": "20000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "20000",
    "producer.id.expiration.check.interval.ms": "1000",
}
"""Seven days each, as Kafka has them, in seconds."""
RENEW_SECONDS = 5.0


@pytest.fixture(scope="module")
def cluster():
    with Cluster.start(1, settings=PATIENT | FORGETFUL) as cluster:
        yield cluster


def commit_and_go(cluster, group, topic):
    """A commit that nobody makes again."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("auto_commit", [True, False], ids=["auto", "manual"])
@pytest.mark.parametrize("fencing", ["none", "broker"])
def test_an_idle_partition_keeps_its_commit_and_its_member_commits_on(
    cluster, topic, fresh, plan, make_consumer, fencing, auto_commit, caplog
):
    planner = plan(spread(topic))
    consumer = make_consumer(
        planner,
        "i0",
        {"enable.auto.commit": auto_commit},
        fencing=fencing,
        renew_commits=RENEW_SECONDS,
    )
    produce(cluster, topic, [(0, n) for n in range(3)])
    poll_until(consumer, lambda values: len(values) == 3)
    note = TopicPartition(topic, 0, 3, "by the application")
    consumer.commit(offsets=[note], asynchronous=False)
    life = consumer.incarnation
    other = fresh("forgotten")
    commit_and_go(cluster, other, topic)

    def forgotten():
        assert consumer.poll(0.2) is None
        return committed(cluster, other, topic) == {}

    wait_until("end of another group's commit", forgotten)
    assert committed(cluster, planner.group, topic) == {0: 3}
    (kept,) = consumer.committed([TopicPartition(topic, 0)])
    assert kept.metadata == "by the application"

    produce(cluster, topic, [(0, 3)])
    assert poll_until(consumer, lambda values: len(values) == 1) == ["3"]
    consumer.commit(asynchronous=False)
    assert committed(cluster, planner.group, topic) == {0: 4}
    assert consumer.incarnation == life
    assert "member.fenced" not in caplog.text


def test_a_transactional_id_that_was_forgotten_costs_a_life_and_no_more(
    cluster, topic, fresh, plan, make_consumer
):
    planner = plan(spread(topic))
    consumer = make_consumer(planner, "i0", fencing="broker")  # commits are kept for days
    produce(cluster, topic, [(0, n) for n in range(3)])
    poll_until(consumer, lambda values: len(values) == 3)
    consumer.commit(asynchronous=False)
    life, other = consumer.incarnation, fresh("forgotten")
    commit_and_go(cluster, other, topic)

    def forgotten():
        consumer.poll(0.2)
        return committed(cluster, other, topic) == {}

    wait_until("end of another group's commit, after that of the id", forgotten)
    produce(cluster, topic, [(0, 3)])

    def committed_again():
        consumer.poll(0.2)
        return committed(cluster, planner.group, topic) == {0: 4}

    consumer.poll(0.2)
    wait_until("commit of the next life", committed_again)
    assert consumer.incarnation != life
