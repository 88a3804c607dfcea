"""A scripted planner: real ledger, producer and reader, with a target that the test gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from threading import Event, Lock, Thread
from types import MappingProxyType

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors import boot_clock
from levelwind.assignors.boot_clock import boot_seconds as clock
from levelwind.assignors.clients.confluent import consumer as consumer_module
from levelwind.assignors.handover.ledger import Incarnation, Ledger
from levelwind.assignors.handover.planner_time import PlannerTime
from levelwind.assignors.handover.timers import Timers
from levelwind.assignors.protocol.records import (
    MemberRecord,
    MemberShard,
    PlannerRecord,
    Rejection,
    Tombstone,
    decode,
    encode,
    encode_key,
)
from levelwind.assignors.protocol.records.cutting import cut
from levelwind.assignors.protocol.topics import Topics, partition_for
from levelwind.clients.confluent import ManagedConsumer
from levelwind_testing.kafka.brokerless_member import (
    UNREACHABLE,
    ScriptedConsumer,
    SteppedFollower,
)
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.jumping_clock import JumpingClock
from levelwind_testing.kafka.managed_consumers import initialise

TIMERS = replace(Timers().scaled(0.25), dead_after=12.0)
"""Short, but for the silence before an eviction: the scripted planner counts time in which brokers
stood still and nobody could read, as the daemon's does not."""
PLANNER_REPEAT_SECONDS = 5.0


@pytest.fixture
def make_topics(cluster):
    """Make topics and wait until every partition has a leader: `make_topics({"orders": 6})`."""
    return lambda sizes, **config: _make_topics(cluster.bootstrap, sizes, config)


def _make_topics(bootstrap, sizes, config):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    replication = min(len(admin.list_topics(timeout=10).brokers), 3)
    new = [NewTopic(n, s, replication, config=config) for n, s in sizes.items()]
    create_topics({"bootstrap.servers": bootstrap}, *new)


@pytest.fixture
def timers():
    """Timers of the planner and its members: short, as no test waits long for an answer."""
    return TIMERS


@pytest.fixture
def boot(monkeypatch):
    """The boot clock of the members and the planner in this process, which a test lets jump."""
    jumping = JumpingClock()
    monkeypatch.setattr(boot_clock, "time", jumping)
    return jumping


def planner_time():
    """The time of a planner that has read everything."""
    return PlannerTime(clock(), clock(), clock())


@pytest.fixture
def topic(cluster, fresh, make_topics):
    name = fresh("work")
    make_topics({name: 6})
    return name


@pytest.fixture
def make_consumer(cluster, topic, boot, timers):
    """Make a consumer for a planner: `make_consumer(planner, "i0", **settings)`."""
    consumers = []

    def make(planner, instance, config=None, **options):
        consumers.append(
            ManagedConsumer(
                {
                    "bootstrap.servers": cluster.bootstrap,
                    "auto.offset.reset": "earliest",
                    "log_level": 2,
                    **(config or {}),
                },
                group=planner.group,
                topics=[topic],
                instance=instance,
                prefix=planner.topics.prefix,
                timers=timers,
                **options,
            )
        )
        return consumers[-1]

    yield make
    boot.go_on()
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def make_brokerless(monkeypatch):
    """Make a consumer of brokers that do not exist: `make_brokerless(settings, journal=…)`."""
    consumers = []
    monkeypatch.setattr(consumer_module, "AssignmentFollower", SteppedFollower)

    def make(config=None, *, librdkafka=ScriptedConsumer, topics=("orders",), **options):
        monkeypatch.setattr(consumer_module, "Consumer", librdkafka)
        settings = {**UNREACHABLE, **(config or {})}
        consumer = ManagedConsumer(settings, group="g", topics=topics, instance="i", **options)
        consumer._follower.admin = consumer._consumer
        consumers.append(consumer)
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()
        consumer._follower.end()


class ScriptedPlanner(Thread):
    """Publishes `share(members)`, where `members` are the live instances, sorted."""

    def __init__(self, bootstrap, prefix, group, share, new_from, timers):
        super().__init__(daemon=True)
        self.topics = Topics(prefix)
        self.group = group
        self.share = share
        self.new_from = new_from
        self.partition = partition_for(group, 2)
        self.bootstrap = bootstrap
        self.stopping = Event()
        self.lock = Lock()
        self.records: list[MemberRecord | Tombstone] = []
        self.live: dict[str, str] = {}
        self.last_record_at: dict[Incarnation, float] = {}
        self.timers = timers
        self.ledger = Ledger.empty(group=group, timers=timers)
        self.evictions: dict[Incarnation, float] = {}
        self.announced_at = clock()
        self.failure = None

    def run(self):
        try:
            self.follow()
        except BaseException as error:
            self.failure = error
            raise

    def follow(self):
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "scripted",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        reader.assign(
            [
                TopicPartition(t, self.partition, 0)
                for t in (self.topics.members, self.topics.assignments)
            ]
        )
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.topics.prefix + "planner",
                "linger.ms": 0,
            }
        )
        producer.init_transactions(30)
        while not self.stopping.is_set():
            message = reader.poll(0.05)
            while message is not None:
                if (error := message.error()) is None:
                    self.receive(message)
                else:  # the client goes on by itself once a test's rule is lifted
                    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
                message = reader.poll(0)
            self.plan(producer)
        reader.close()

    def receive(self, message):
        if message.topic() == self.topics.assignments:
            record = decode("assignments", message.key(), message.value())
            # A test's own, a part of one, or the planner's.
            if isinstance(record, Rejection | MemberShard | PlannerRecord):
                return
            if not isinstance(record, Tombstone) and record.state == "evicted":
                incarnation, now = Incarnation(record.instance, record.incarnation), clock()
                self.evictions.setdefault(incarnation, now)
                self.ledger = self.ledger.eviction_read_back(incarnation, now)
            return
        record = decode("members", message.key(), message.value())
        with self.lock:
            self.records.append(record)
        if isinstance(record, Tombstone):
            incarnation = Incarnation(*record.key[2:])
            self.ledger = self.ledger.leave(incarnation)
            self.forget(incarnation)
            return
        incarnation = Incarnation(record.instance, record.incarnation)
        self.ledger = self.ledger.acknowledge(record, planner_time())
        if record.state == "left":
            self.forget(incarnation)
            return
        self.last_record_at[incarnation] = clock()
        if record.state == "joining":
            if (old := self.live.get(incarnation.instance)) not in (None, incarnation.incarnation):
                self.ledger = self.ledger.evict(
                    Incarnation(incarnation.instance, old), planner_time()
                )
            self.live[incarnation.instance] = incarnation.incarnation

    def forget(self, incarnation):
        if self.live.get(incarnation.instance) == incarnation.incarnation:
            del self.live[incarnation.instance]

    def plan(self, producer):
        for instance, name in list(self.live.items()):
            incarnation = Incarnation(instance, name)
            if clock() - self.last_record_at[incarnation] > self.timers.dead_after:
                self.ledger = self.ledger.evict(incarnation, planner_time())
                self.forget(incarnation)
        self.fence()
        shares = self.share(sorted(self.live))
        target = {Incarnation(i, self.live[i]): frozenset(shares[i]) for i in shares}
        ledger = self.ledger.set_target(target, self.new_from).tick(clock(), clock())
        ledger, changes = ledger.next_records(
            epoch=ledger.epoch + 1, planner_epoch=1, readable=clock()
        )
        # As the daemon does now and then, so that brokers that forget soon do not forget its id.
        repeats = clock() - self.announced_at > PLANNER_REPEAT_SECONDS
        own = PlannerRecord(planner_epoch=1, instance="scripted", started_at=0)
        if published := changes or ([own] if repeats else []):
            self.announced_at = clock()
            producer.begin_transaction()
            for change in chain.from_iterable(
                (change,) if isinstance(change, Tombstone | PlannerRecord) else cut(change)
                for change in published
            ):
                key, value = (
                    (encode_key(change.key), None)
                    if isinstance(change, Tombstone)
                    else encode(change)
                )
                producer.produce(
                    self.topics.assignments, key=key, value=value, partition=self.partition
                )
            producer.commit_transaction(30)
        self.ledger = ledger

    def fence(self):
        """Have the brokers refuse the commits of evicted lives; a next life does so itself."""
        for incarnation, holding in self.ledger.holdings.items():
            if holding.evicted and holding.unfenced:
                if incarnation.instance not in self.live:
                    initialise(self.bootstrap, holding.waits.transactional_id)
                self.ledger = self.ledger.commits_fenced(incarnation)

    def stop(self):
        self.stopping.set()
        self.join(30)
        assert self.failure is None


@pytest.fixture
def plan(cluster, fresh, make_topics, boot, timers):
    """Start a planner: `plan(share, group=group)`.

    The planner has topics under its own prefix, and by default a group of its own.
    """
    planners = []

    def start(share, *, group=None, topics=True, new_from=MappingProxyType({})):
        prefix = fresh("lw") + "."
        if topics:
            names = Topics(prefix)
            make_topics({names.members: 2, names.assignments: 2}, **{"cleanup.policy": "compact"})
        group = group or fresh("group")
        planner = ScriptedPlanner(cluster.bootstrap, prefix, group, share, new_from, timers)
        planners.append(planner)
        if topics:
            planner.start()
        return planner

    yield start
    for planner in planners:
        if planner.is_alive() or planner.failure:
            planner.stop()
