"""Brokers that forget soon: what they forget of others, a managed group keeps."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from levelwind.assignors.handover.timers import Timers
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.managed_consumers import (
    commits_of,
    committed,
    poll_until,
    produce,
    spread,
)
from levelwind_testing.kafka.patient_brokers import PATIENT
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.waiting import wait_until

pytestmark = pytest.mark.integration

FORGETFUL = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "transactional.id.expiration.ms": "30000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    "producer.id.expiration.ms": "20000",
    "producer.id.expiration.check.interval.ms": "1000",
    "connections.max.idle.ms": "3000",
}
"""Seven days each, as Kafka has them, in seconds, and the ten minutes of an idle connection."""
IDLE = {"connections.max.idle.ms": 2000}
"""As much shorter than the brokers' as the default of a managed consumer is."""
RENEW_SECONDS = 5.0


@pytest.fixture
def timers():
    """As they are by default: a stall in two minutes of polling must not cost a member its lease,
    nor a commit its second and a half."""
    return Timers()


@pytest.fixture(scope="module")
def cluster():
    with Cluster.start(1, settings=PATIENT | FORGETFUL) as cluster:
        yield cluster


def commit_and_go(cluster, group, topic):
    """A commit that nobody makes again."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    commit_offsets(consumer, [TopicPartition(topic, 0, 1)])
    consumer.close()


class Scene:
    """A member that has committed record 3 of partition 0, and then has nothing to read."""

    def __init__(self, cluster, topic, planner, consumer):
        self.cluster, self.topic, self.planner, self.consumer = cluster, topic, planner, consumer
        self.seen = []
        poll_until(consumer, lambda values: len(values) == 3)
        note = TopicPartition(topic, 0, 3, "by the application")
        consumer.commit(offsets=[note], asynchronous=False)
        self.life = consumer.incarnation

    def poll(self):
        message = self.consumer.poll(0.05)
        if message is not None:
            assert message.error() is None
            self.seen.append(message.value().decode())

    def note(self):
        """The commit's metadata, by a connection that the brokers have not ended."""
        (found,) = commits_of(self.cluster, self.planner.group, self.topic)
        return found.metadata

    def committed(self):
        return committed(self.cluster, self.planner.group, self.topic)


@pytest.fixture
def scene(cluster, topic, plan, make_consumer):
    """Makes the scene of a group of its own."""
    produce(cluster, topic, [(0, n) for n in range(3)])

    def make(config=None, **options):
        planner = plan(spread(topic))
        consumer = make_consumer(planner, "i0", IDLE | (config or {}), **options)
        return Scene(cluster, topic, planner, consumer)

    return make


def test_an_idle_partition_keeps_its_commit_and_its_member_commits_on(
    cluster, topic, fresh, scene, caplog
):
    kept = [
        scene({"enable.auto.commit": auto_commit}, fencing=fencing, renew_commits=RENEW_SECONDS)
        for auto_commit in (True, False)
        for fencing in ("none", "broker")
    ]
    forgotten = scene(fencing="broker")  # it would make its commit again after an hour
    polling = scenes = [*kept, forgotten]
    other = fresh("nobody")
    commit_and_go(cluster, other, topic)

    def polled(condition):
        """All poll at each look: a commit is made again by whoever polls."""

        def holds():
            for each in polling:
                each.poll()
            return condition()

        return holds

    wait_until(
        "end of the commit of a group without members",
        polled(lambda: committed(cluster, other, topic) == {}),
    )
    assert [each.seen for each in scenes] == [[]] * 5
    assert [each.committed() for each in kept] == [{0: 3}] * 4
    assert {each.note() for each in kept} == {"by the application"}

    polling = kept
    produce(cluster, topic, [(0, 3)])
    wait_until("record", polled(lambda: [each.seen for each in kept] == [["3"]] * 4), pause=0)
    for each in kept:  # over connections that nothing was sent on for longer than brokers wait
        each.consumer.commit(asynchronous=False)
    for each in kept:
        assert each.committed() == {0: 4}
        assert each.consumer.incarnation == each.life
    assert "member.fenced" not in caplog.text

    # A transactional id that the brokers have forgotten costs a life, and no more.
    wait_until(
        "commit of the next life", lambda: forgotten.poll() or forgotten.committed() == {0: 4}
    )
    assert forgotten.consumer.incarnation != forgotten.life
    assert "member.fenced" in caplog.text
