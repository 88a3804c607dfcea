"""Canaries in every partition of the members' topic, on real brokers."""

import pytest

from levelwind.assignors.boot_clock import boot_seconds
from levelwind.assignors.protocol.records import CanaryRecord
from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.kafka import canary_writer
from levelwind.daemon.kafka.canary_writer import CanaryWriter
from levelwind.daemon.kafka.topic_follower import TopicFollower
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind_testing.kafka.failed_producer import FailedProducer

pytestmark = pytest.mark.integration

PARTITIONS = 4


@pytest.fixture(autouse=True)
def long_memory(monkeypatch):
    """Canaries are ten times as frequent here, and forgotten no sooner for that."""
    monkeypatch.setattr(canary_writer, "REMEMBERED", 100_000)


def writer_of(client_config, topics, log, **options):
    return CanaryWriter(
        client_config,
        topics,
        instance="me",
        planner_epoch=3,
        partitions=PARTITIONS,
        interval=options.pop("interval", 0.1),
        log=log,
        **options,
    )


class Follower:
    """Reads the members' topic, and keeps each canary with the boot seconds of its reading."""

    def __init__(self, client_config, topics, log):
        self.read = []
        self.follower = TopicFollower(
            client_config=client_config,
            topics=topics,
            kinds=("members",),
            on_record=lambda read: self.read.append((boot_seconds(), read)),
            log=log,
        )
        self.follower.start()

    def numbers(self, partition):
        return [read.record.number for _, read in self.read if read.partition == partition]

    def stopped(self):
        """The partitions whose canary says that the planner stopped."""
        return {read.partition for _, read in self.read if read.record.state == "stopped"}


@pytest.fixture
def follower(client_config, topics, log):
    follower = Follower(client_config, topics, log)
    yield follower
    follower.follower.stop()


def test_each_partition_gets_rising_canaries_and_the_last_says_that_the_planner_stopped(
    client_config, topics, log, follower, eventually
):
    writer = writer_of(client_config, topics, log)
    writer.start()
    eventually(lambda: all(len(follower.numbers(n)) >= 4 for n in range(PARTITIONS)))
    writer.stop(farewell=True)
    eventually(lambda: follower.stopped() == set(range(PARTITIONS)))
    assert follower.follower.rejected == 0
    for partition in range(PARTITIONS):
        numbers = follower.numbers(partition)
        assert numbers == sorted(set(numbers))
        states = [read.record.state for _, read in follower.read if read.partition == partition]
        assert set(states[:-1]) == {"leading"}
        assert states[-1] == "stopped"
    for read_at, read in follower.read:
        asked_at = writer.asked_at(read.record)
        assert asked_at is not None
        assert asked_at < read_at
    assert log.events == [e for e in log.events if e["event"] == "topic_reader.caught_up"]


def test_a_planner_that_is_deposed_says_nothing_more(
    client_config, topics, log, follower, eventually
):
    writer = writer_of(client_config, topics, log)
    writer.start()
    eventually(lambda: follower.numbers(0))
    writer.stop(farewell=False)
    assert {read.record.state for _, read in follower.read} == {"leading"}


def test_the_canaries_go_over_to_another_epoch(client_config, topics, log, follower, eventually):
    writer = writer_of(client_config, topics, log)
    writer.start()
    eventually(lambda: follower.numbers(0))
    eventually(lambda: set(writer.written()) == set(range(PARTITIONS)))
    before = writer.written()
    writer.lead_in(9)
    eventually(lambda: follower.read[-1][1].record.planner_epoch == 9)
    writer.stop(farewell=True)
    eventually(lambda: follower.stopped() == set(range(PARTITIONS)))
    asked_at = {writer.asked_at(read.record) for _, read in follower.read}
    assert None not in asked_at
    assert set(writer.written().values()) <= asked_at
    assert all(before[partition] < at for partition, at in writer.written().items())
    numbers = follower.numbers(0)
    assert numbers == sorted(set(numbers))


def test_another_planners_canaries_are_none_of_its_own(client_config, topics, log):
    writer = writer_of(client_config, topics, log)
    writer.stop(farewell=True)
    own = CanaryRecord(planner_epoch=3, instance="me", number=1, state="stopped")
    assert writer.asked_at(own) is not None
    for fields in ({"instance": "another"}, {"planner_epoch": 2}, {"number": 2}):
        values = {"planner_epoch": 3, "instance": "me", "number": 1, "state": "leading", **fields}
        assert writer.asked_at(CanaryRecord(**values)) is None


def test_it_goes_on_after_an_outage_and_says_so_once(own_cluster, killed, fresh, log, eventually):
    topics = Topics(fresh("lw") + ".")
    client_config = {"bootstrap.servers": own_cluster.bootstrap, "message.timeout.ms": 1000}
    ensure_topics(client_config, topics, TopicSettings(), log)
    writer = writer_of(client_config, topics, log)
    writer.start()
    first = Follower(client_config, topics, log)
    eventually(lambda: first.numbers(0))
    with killed():
        eventually(lambda: log.of("canary.unwritten"))
    eventually(lambda: log.of("canary.resumed"))
    first.follower.stop()
    writer.stop(farewell=False)
    assert log.names.count("canary.unwritten") == log.names.count("canary.resumed") == 1


def test_canaries_go_on_after_a_fatal_error_that_no_report_tells(
    client_config, topics, log, follower, eventually
):
    writer = writer_of(client_config, topics, log)
    writer.start()
    eventually(lambda: all(follower.numbers(partition) for partition in range(PARTITIONS)))
    writer._producer = failed = FailedProducer()
    eventually(lambda: writer._producer is not failed)
    last = writer._number
    eventually(lambda: all(max(follower.numbers(p)) > last for p in range(PARTITIONS)))
    writer.stop(farewell=False)
