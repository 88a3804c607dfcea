"""A real daemon and managed members whose circumstances change: capacity, and subscribers."""

import time

import pytest
from confluent_kafka import Producer

from levelwind.assignors.protocol.records import TopicRecord, encode
from levelwind.assignors.protocol.topics import Topics, partition_for
from levelwind.clients.confluent import ManagedConsumer
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind_testing.kafka.managed_consumers import PATIENT_MEMBER, produce
from levelwind_testing.processes.daemon_process import DaemonProcess, timer_settings
from levelwind_testing.processes.subscriber_process import SubscriberProcess, shared
from levelwind_testing.records import lag

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PARTITIONS = 6


class Stage:
    """A daemon without a pipeline, a topic, and members that the test polls."""

    def __init__(self, cluster, fresh, directory):
        self.cluster, self.topics = cluster, Topics(fresh("changes") + ".")
        self.topic, self.group = fresh("orders"), fresh("group")
        self.config = {
            "bootstrap.servers": cluster.bootstrap,
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
        self.members, self.seen = {}, set()
        self.daemon = DaemonProcess(
            cluster.bootstrap,
            directory,
            f"prefix={self.topics.prefix}",
            "pipeline.run=elsewhere",
            "control.cooldown.duration=1",
            *timer_settings(PATIENT_MEMBER),
        )
        self.daemon.wait_for("leader", lambda: self.daemon.logged("daemon.leading"))

    def join(self, *instances, **options):
        for instance in instances:
            self.members[instance] = ManagedConsumer(
                self.config,
                group=self.group,
                topics=[self.topic],
                instance=instance,
                prefix=self.topics.prefix,
                timers=PATIENT_MEMBER,
                **options,
            )

    def poll(self):
        for member in self.members.values():
            message = member.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                self.seen.add((message.partition(), message.offset()))

    def wait(self, condition, what):
        """Poll all members until something holds."""

        def holds():
            self.poll()
            return condition()

        return self.daemon.wait_for(what, holds)

    def counts(self):
        return {name: len(member.assignment()) for name, member in self.members.items()}

    def send_lag(self, *behind):
        client = {"bootstrap.servers": self.cluster.bootstrap}
        found = read_to_end(client, self.topics, ["metadata"], timeout=10.0)
        layouts = [entry.record for entry in found if hasattr(entry, "record")]
        (topic_id,) = [
            record.id
            for record in layouts
            if isinstance(record, TopicRecord) and record.topic == self.topic
        ]
        record = lag(
            *behind,
            group=self.group,
            topic=self.topic,
            topic_id=topic_id,
            at=round(time.time() * 1000),
        )
        key, value = encode(record)
        name = self.topics.name("lag")
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
        count = len(producer.list_topics(name, timeout=10).topics[name].partitions)
        producer.produce(name, value, key, partition_for(self.group, count))
        assert producer.flush(30) == 0

    def close(self):
        for member in self.members.values():
            member.close()
        self.daemon.kill()


@pytest.fixture
def stage(cluster, kafka, fresh, tmp_path):
    made = Stage(cluster, fresh, tmp_path)
    kafka.create(made.topic, PARTITIONS)
    try:
        yield made
    finally:
        made.close()


def test_a_member_whose_capacity_grows_gets_more_of_the_load(stage):
    stage.join("i0", "i1")
    stage.wait(lambda: stage.counts() == {"i0": 3, "i1": 3}, "even shares")
    stage.send_lag(*(1000,) * PARTITIONS)
    planned = len(stage.daemon.logged("plan.published"))
    stage.members["i0"].capacity = 5.0
    stage.wait(lambda: stage.counts() == {"i0": 5, "i1": 1}, "shares by capacity")
    plans = stage.daemon.logged("plan.published")[planned:]
    assert "membership" in [plan["cause"] for plan in plans]


def test_members_that_wait_for_subscribers_take_over_once_these_have_left(stage, caplog):
    journal = []
    config = stage.config | {"group.id": stage.group, "log_level": 0}
    old = [SubscriberProcess(config, stage.topic, journal) for _ in range(2)]
    produce(stage.cluster, stage.topic, [(n, "x") for n in range(PARTITIONS) for _ in range(20)])
    stage.daemon.wait_for("subscribers", lambda: all(len(each.held) == 3 for each in old))
    stage.join("i0", "i1", after_subscribers=True)

    def seen(instance):
        """How often a member has seen the subscribers."""
        lines = [line for line in caplog.messages if "member.waiting_for_subscribers" in line]
        return sum(f" instance={instance} " in line for line in lines)

    stage.wait(lambda: seen("i0") >= 3 and seen("i1") >= 3, "three looks of each member")
    assert stage.counts() == {"i0": 0, "i1": 0}
    assert stage.daemon.logged("plan.published", group=stage.group) == []
    for subscriber in old:
        subscriber.stop()
    stage.wait(lambda: stage.counts() == {"i0": 3, "i1": 3}, "take-over")
    produce(stage.cluster, stage.topic, [(n, "x") for n in range(PARTITIONS) for _ in range(20)])
    written = {(number, offset) for number in range(PARTITIONS) for offset in range(40)}

    def read():
        before = {(n, o) for each in old for n, found in each.processed.items() for o in found}
        return before | stage.seen == written

    stage.wait(read, "last record")
    assert shared(journal) == []
    assert not {(n, o) for n, o in stage.seen if o < 20}, "what was committed is not read again"
