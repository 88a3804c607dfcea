"""Published plans on real brokers: unmodified kafka-python and aiokafka members follow a daemon.

The daemon is a real one without a pipeline; the test writes the lag records that the pipeline
would, with the owners that the members report.
"""

import time
from importlib import import_module
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.clients.published_plans import PlanMailbox, PublishedPlans
from levelwind.assignors.protocol.records import (
    LagRecord,
    OperatorRecord,
    TopicRecord,
    decode,
    encode,
    partitions_for,
)
from levelwind.assignors.protocol.topics import Topics
from levelwind_testing.kafka.classic_members import AiokafkaMember, KafkaPythonMember
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.records import lag_of_owners
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytest.importorskip("kafka", reason="an extra that is not installed")
pytest.importorskip("aiokafka", reason="an extra that is not installed")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

kafka_python = import_module("levelwind.clients.kafka_python")
aiokafka = import_module("levelwind.clients.aiokafka")
PARTITIONS = 6
REPORTS_A_REQUEST = 4


class Stage:
    """A topic, members of one group, a daemon, and the lag that the daemon is given."""

    def __init__(self, bootstrap, prefix, topic, group, directory, kind):
        self.bootstrap, self.prefix, self.topic, self.group = bootstrap, prefix, topic, group
        self.topics, self.directory, self.kind = Topics(prefix), directory, kind
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        create_topics({"bootstrap.servers": bootstrap}, NewTopic(topic, PARTITIONS, 1))
        self.producer = Producer({"bootstrap.servers": bootstrap})
        self.members, self.plans, self.daemon = {}, [], None
        self.behind, self.topic_id = (0,) * PARTITIONS, None
        self.reports = 0
        """Lag records that were written, of which the daemon is given two a second."""
        self.stopping = Event()
        self.pipeline = Thread(target=self._write_lag, daemon=True)

    def join(self, name):
        """A member: `k...` of kafka-python, which plans name by member id; `a...` of aiokafka."""
        config = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        plans = PublishedPlans(config, self.group, prefix=self.prefix)
        self.plans.append(plans)
        module, member, static = (
            (kafka_python, KafkaPythonMember, {})
            if name[0] == "k"
            else (aiokafka, AiokafkaMember, {"group_instance_id": name})
        )
        assignor = getattr(module, self.kind)(plans=plans, instance=(static and name) or None)
        self.members[name] = member(
            self.bootstrap, self.group, [self.topic], assignors=[assignor], **static
        )
        self.members[name].start()

    def leave(self, name):
        self.members.pop(name).stop()

    def name_of(self, name, member):
        return member.member_id if name[0] == "k" else name

    def start_daemon(self):
        self.daemon = DaemonProcess(
            self.bootstrap,
            self.directory,
            f"prefix={self.prefix}",
            "pipeline.run=elsewhere",
            "control.cooldown.duration=1",
            f"groups.{self.group}.mode=published",
        )
        self.daemon.wait_for("leader", lambda: self.daemon.logged("daemon.leading"))
        if self.topic_id is None:
            self.topic_id = self.wait(self._read_topic_id, "a layout")
            self.pipeline.start()

    def _read_topic_id(self):
        for _, value in self.records("metadata"):
            if isinstance(value, TopicRecord) and value.topic == self.topic:
                return value.id
        return None

    def records(self, kind):
        """All records of a topic of levelwind's so far, with their bytes."""
        name = self.topics.name(kind)
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                # The end lies behind the marker of a transaction, of which there is no record.
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
        )
        found, unread = [], set(reader.list_topics(name, timeout=10).topics[name].partitions)
        reader.assign([TopicPartition(name, number, 0) for number in unread])
        while unread:
            message = reader.poll(GENEROUS_SECONDS)
            if message.error() is None:
                raw = message.key(), message.value()
                found.append((raw, decode(kind, *raw)))
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                unread.discard(message.partition())
        reader.close()
        return found

    def planned(self):
        """The newest plan's partitions, by the members' names."""
        mailbox = PlanMailbox(self.group)
        for raw, _ in self.records("assignments"):
            mailbox.take(*raw)
        if mailbox.newest is None:
            return None
        return {
            name: {(topic, n) for topic, numbers in share.items() for n in numbers}
            for name, share in mailbox.newest.assignments.items()
        }

    def _write_lag(self):
        while not self.stopping.wait(0.5):
            if self.settled():
                self.write(self.lag_record())
                self.reports += 1

    def lag_record(self) -> LagRecord:
        held = {
            self.name_of(name, member): [number for _, number in member.held]
            for name, member in list(self.members.items())  # the test's thread changes them
        }
        named = {"group": self.group, "topic": self.topic, "topic_id": self.topic_id}
        return lag_of_owners(held, *self.behind, **named)

    def write(self, record, kind="lag"):
        key, value = encode(record)
        name = self.topics.name(kind)
        count = len(self.admin.list_topics(name, timeout=10).topics[name].partitions)
        (partition,) = partitions_for(kind, record.key, count)
        self.producer.produce(name, value, key, partition)
        assert self.producer.flush(30) == 0

    def ask_for_a_plan(self):
        at = round(time.time() * 1000)
        self.write(
            OperatorRecord(group=self.group, at=at, by="test", action="rebalance", reason=""),
            "control",
        )

    def settled(self):
        members = list(self.members.values())
        held = [partition for member in members for partition in member.held]
        return (
            bool(members)
            and len({member.generation for member in members}) == 1
            and len(held) == len(set(held)) == PARTITIONS
        )

    def follows(self):
        """Whether the members have exactly what the newest plan gives them."""
        planned = self.planned()
        return (
            planned is not None
            and self.settled()
            and all(
                member.held == planned.get(self.name_of(name, member), set())
                for name, member in self.members.items()
            )
        )

    def wait(self, condition, what):
        def shown():
            state = {n: (m.generation, sorted(m.held), m.failure) for n, m in self.members.items()}
            tail = self.daemon.tail() if self.daemon else ""
            return f"{state} {self.planned()}\n{tail}"

        return wait_until(what, condition, pause=0.2, shown=shown)

    def read_on(self):
        """Write records to all partitions one after the other, each of which its owner reads."""
        for number in range(PARTITIONS):
            owner = next(m for m in self.members.values() if (self.topic, number) in m.held)
            read = []
            owner.handle = lambda partition, _, read=read: read.append(partition)
            self.producer.produce(self.topic, b"x", partition=number)
            assert self.producer.flush(30) == 0
            self.wait(lambda number=number, read=read: number in read, "record")

    def stop(self):
        self.stopping.set()
        for member in self.members.values():
            member.stop()
        for plans in self.plans:
            plans.close()
        if self.daemon is not None:
            self.daemon.kill()


@pytest.fixture(params=["PublishedAssignor", "CooperativePublishedAssignor"])
def stage(request, cluster, fresh, tmp_path):
    made = Stage(
        cluster.bootstrap,
        fresh("published") + ".",
        fresh("orders"),
        fresh("group"),
        tmp_path,
        request.param,
    )
    try:
        yield made
    finally:
        made.stop()


def test_plans_are_followed_and_a_killed_daemon_stops_nobody(stage):
    names = ["k0", "a1"] if stage.kind == "PublishedAssignor" else ["k0", "k1"]
    # Without a daemon, or even its topics, the local strategy assigns.
    for name in names:
        stage.join(name)
    stage.wait(lambda: stage.settled() and all(m.held for m in stage.members.values()), "start")

    # The whole backlog is the first member's: the plan gives it away, and the group follows.
    first = stage.members[names[0]].held
    stage.behind = tuple(
        10_000 if (stage.topic, number) in first else 0 for number in range(PARTITIONS)
    )
    stage.start_daemon()
    stage.wait(stage.follows, "group that follows the first plan")
    mine = {(stage.topic, n) for n, behind in enumerate(stage.behind) if behind}
    assert all(member.held & mine for member in stage.members.values())

    # Another backlog, another plan.
    before = {name: member.held for name, member in stage.members.items()}
    busy = before[names[1]]
    stage.behind = tuple(
        10_000 if (stage.topic, number) in busy else 0 for number in range(PARTITIONS)
    )
    asked_after = stage.reports

    def follows_another():
        nonlocal asked_after
        # A request before the lag is known has a plan without it.
        if stage.reports >= asked_after + REPORTS_A_REQUEST:
            asked_after = stage.reports
            stage.ask_for_a_plan()
        return stage.follows() and before != {n: m.held for n, m in stage.members.items()}

    stage.wait(follows_another, "group that follows the second plan")

    # The daemon dies: the group goes on, takes in a member and loses one.
    stage.daemon.kill()
    held = {name: member.held for name, member in stage.members.items()}
    stage.read_on()
    assert held == {name: member.held for name, member in stage.members.items()}
    stage.join("k9")
    stage.wait(lambda: stage.settled() and len(stage.members) == 3, "third member")
    stage.leave(names[0])
    stage.wait(stage.settled, "group without its first member")
    assert all(member.failure is None for member in stage.members.values())
