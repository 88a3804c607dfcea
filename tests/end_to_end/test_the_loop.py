"""The whole loop of real parts: brokers, the daemon with its Spark pipeline, and consumers."""

import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from assignors.handover.timers import Timers
from deploy.cluster import Cluster
from levelwind_testing.kafka.reassignment import reassign
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.followers import Follower, overlaps

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

PREFIX = "loop."
PATIENT = {"broker.session.timeout.ms": "45000", "controller.quorum.fetch.timeout.ms": "20000"}
TIMERS = Timers().scaled(0.5)
SETTINGS = (
    f"prefix={PREFIX}",
    "control.cooldown.duration=4",
    "groups.by-rack.strategy=range",
    *(f"timers.{name}={getattr(TIMERS, name)}" for name in Timers.__dataclass_fields__),
)


class Loop:
    """The cluster, the running daemon, and the clients that a test needs."""

    def __init__(self, bootstrap, state):
        self.bootstrap = bootstrap
        self.state = state
        client = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(client)
        # The one client id that the brokers let write into their internal topics.
        self.producer = Producer({**client, "client.id": "__admin_client"})
        self.journal = []
        self.start()

    def start(self):
        self.daemon = DaemonProcess(self.bootstrap, self.state, *SETTINGS)

    def create(self, topic, replicas):
        new = NewTopic(topic, num_partitions=len(replicas), replica_assignment=replicas)
        self.admin.create_topics([new])[topic].result(30)

    def produce(self, topic, partition, count):
        for _ in range(count):
            self.send(topic, partition, b"x" * 50)
        assert self.producer.flush(30) == 0

    def send(self, topic, partition, value, key=None):
        def acknowledged(error, _):
            assert error is None, error

        self.producer.produce(topic, value, key, partition=partition, on_delivery=acknowledged)
        self.producer.poll(0)

    def follow(self, group, topic, racks, rate=1e9):
        return [
            Follower(
                self.bootstrap,
                PREFIX,
                group,
                topic,
                instance=f"{group}-{rack}",
                rack=rack,
                timers=TIMERS,
                journal=self.journal,
                rate=rate,
            )
            for rack in racks
        ]

    def ends(self, topic, partitions):
        asked = {TopicPartition(topic, n): OffsetSpec.latest() for n in range(partitions)}
        return {p.partition: f.result(10).offset for p, f in self.admin.list_offsets(asked).items()}

    def committed(self, group, topic, partitions):
        asked = ConsumerGroupTopicPartitions(
            group, [TopicPartition(topic, n) for n in range(partitions)]
        )
        answer = self.admin.list_consumer_group_offsets([asked])[group].result(10)
        return {p.partition: max(p.offset, 0) for p in answer.topic_partitions}  # below 0: none

    def read(self, topic, done, within=60):
        """Read one of levelwind's topics until `done` is true of its records, value by key."""
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "group.id": "nobody",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        records, until = {}, time.monotonic() + within
        try:
            count = len(
                self.admin.list_topics(PREFIX + topic, timeout=10).topics[PREFIX + topic].partitions
            )
            reader.assign([TopicPartition(PREFIX + topic, n, 0) for n in range(count)])
            while not done(records):
                assert time.monotonic() < until, f"not in {topic}: {list(records)[-20:]}"
                for message in reader.consume(500, 0.2):
                    if message.error() is None:
                        value = message.value()
                        records[message.key()] = None if value is None else json.loads(value)
            return records
        finally:
            reader.close()

    def all_is_done(self, group, topic, followers):
        """Wait until all is committed; each record was processed, none by two at once."""
        partitions = len(self.ends(topic, 6))
        for follower in followers:
            follower.speed_up()
        self.daemon.wait_for(
            "everything to be committed",
            lambda: self.committed(group, topic, partitions) == self.ends(topic, partitions),
        )
        ends = self.ends(topic, partitions)
        for number, end in ends.items():
            processed = {offset for f in followers for offset in f.processed.get(number, [])}
            assert processed == set(range(end))
        assert overlaps([entry for entry in self.journal if entry.group == group]) == []


@pytest.fixture(scope="module")
def loop(tmp_path_factory) -> Iterator[Loop]:
    with Cluster.start(settings=PATIENT) as cluster:
        loop = Loop(cluster.bootstrap, tmp_path_factory.mktemp("state"))
        try:
            loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
            yield loop
        finally:
            loop.daemon.stop()


def test_a_skewed_lag_moves_the_hot_partitions_apart(loop):
    loop.create("skewed", [[1, 2], [2, 3], [3, 1]] * 2)
    followers = loop.follow("by-lag", "skewed", "abc", rate=60)
    loop.daemon.wait_for(
        "the first plan's partitions", lambda: all(len(f.owned) == 2 for f in followers)
    )
    loaded = followers[0]
    hot = set(loaded.owned)
    for number in range(6):
        loop.produce("skewed", number, 3000 if number in hot else 30)
    plan = loop.daemon.wait_for(
        "a plan", lambda: loop.daemon.logged("plan.published", group="by-lag", cause="skew")
    )[0]
    assert plan["after"]["skew"] < plan["before"]["skew"]
    assert loop.daemon.logged("trigger.raised", group="by-lag", kind="skew")
    loop.daemon.wait_for(
        "the hot partitions with two followers",
        lambda: (
            sum(len(f.owned) for f in followers) == 6 and not any(hot <= f.owned for f in followers)
        ),
    )
    loop.all_is_done("by-lag", "skewed", followers)
    for follower in followers:
        follower.stop()


def test_replicas_that_change_racks_take_their_partitions_to_consumers_there(loop):
    loop.create("racked", [[1], [2], [3]] * 2)
    followers = dict(zip("abc", loop.follow("by-rack", "racked", "abc"), strict=True))
    for number in range(6):
        loop.produce("racked", number, 100)

    def owners():
        return {rack: set(follower.owned) for rack, follower in followers.items()}

    loop.daemon.wait_for(
        "local partitions", lambda: owners() == {"a": {0, 3}, "b": {1, 4}, "c": {2, 5}}
    )
    # The pipeline knows a group from its first commit on, and only changes of racks after that.
    loop.read("lag", lambda records: b'["lag","by-rack","racked"]' in records)
    reassign(loop.bootstrap, "racked", {number: [(number + 1) % 3 + 1] for number in range(6)})
    plan = loop.daemon.wait_for(
        "a plan", lambda: loop.daemon.logged("plan.published", group="by-rack", cause="racks")
    )[0]
    assert (plan["before"]["cross_rack"], plan["after"]["cross_rack"]) == (1.0, 0.0)
    loop.daemon.wait_for("the move", lambda: owners() == {"b": {0, 3}, "c": {1, 4}, "a": {2, 5}})
    for number in range(6):
        loop.produce("racked", number, 100)
    loop.all_is_done("by-rack", "racked", list(followers.values()))
    loop.daemon.wait_for(
        "the end of the trigger",
        lambda: loop.daemon.logged("trigger.cleared", group="by-rack", kind="racks"),
    )
    for follower in followers.values():
        follower.stop()


def test_a_daemon_that_is_killed_freezes_the_assignment_and_its_successor_keeps_it(loop):
    loop.create("lasting", [[1, 2], [2, 3], [3, 1]] * 2)
    followers = loop.follow("lasting", "lasting", "abc")
    loop.daemon.wait_for("partitions", lambda: all(len(f.owned) == 2 for f in followers))
    before = [set(f.owned) for f in followers]
    loop.daemon.kill()
    loop.produce("lasting", 0, 500)
    loop.start()
    loop.daemon.wait_for("the lead", lambda: loop.daemon.logged("daemon.leading"))
    loop.daemon.wait_for("the pipeline", lambda: loop.daemon.logged("pipeline.started"))
    key = b'["lag","lasting","lasting"]'
    loop.read("lag", lambda records: (records.get(key) or {}).get("end", [0])[0] == 500, within=150)
    time.sleep(2 * TIMERS.heartbeat)
    assert [set(f.owned) for f in followers] == before
    assert loop.daemon.logged("plan.published", group="lasting") == []
    loop.all_is_done("lasting", "lasting", followers)
    for follower in followers:
        follower.stop()


def test_garbage_in_any_topic_that_is_read_is_kept_or_counted_and_stops_nothing(loop):
    # The last test of its cluster: a coordinator that meets garbage when it loads its partition
    # serves no group of that partition any more.
    for topic in ("__consumer_offsets", f"{PREFIX}metadata", f"{PREFIX}members"):
        loop.send(topic, 0, b"{not json", key=b"\xff garbage")
    assert loop.producer.flush(10) == 0
    kept = loop.read(
        "dead-letters",
        lambda records: (
            {json.loads(key)[0] for key in records} >= {"__consumer_offsets", f"{PREFIX}metadata"}
        ),
        within=120,
    )
    assert all(value["reason"] for value in kept.values())
    loop.daemon.wait_for("the rejection", lambda: loop.daemon.logged("record.rejected"))
    loop.produce("lasting", 1, 10)
    key = b'["lag","lasting","lasting"]'
    loop.read("lag", lambda records: (records.get(key) or {"lag": [0, 0]})["lag"][1] == 10)
    assert loop.daemon.child.poll() is None
