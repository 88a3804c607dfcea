"""A cluster that shows nobody its offsets topic: commits are polled, and all else is as ever.

By `make rare` also on brokers of older releases.
"""

from contextlib import ExitStack, closing

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.records import LagRecord
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, Topics
from levelwind.clients.confluent import ManagedConsumer
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind_testing.kafka.broker_releases import RELEASES, WITHOUT_KIP_848
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.log_offsets import log_offsets
from levelwind_testing.kafka.managed_consumers import poll_until
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.security.printed_rights import decisions, grant, printed
from levelwind_testing.security.secure_brokers import secure_brokers
from levelwind_testing.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPIC, PARTITIONS, RECORDS = "orders", 6, 40
TOPICS = Topics()
GROUPS = {"classic": {}, "kip848": {"group.protocol": "consumer"}, "simple": {}}


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    return request.param


@pytest.fixture(scope="module")
def brokers(release, tmp_path_factory):
    directory = tmp_path_factory.mktemp("secure")
    with secure_brokers(directory, 3, log_allowed=True, version=release) as brokers:
        create_topics(brokers.cluster.admin_settings, NewTopic(TOPIC, PARTITIONS, 1))
        yield brokers


@pytest.fixture(scope="module")
def client(brokers):
    """Settings of clients that may do everything."""
    return brokers.cluster.admin_settings | {"log_level": 0}


def kafka_settings(user):
    return [
        f"kafka.{name}={value}"
        for name, value in user.librdkafka.items()
        if name != "bootstrap.servers"
    ]


def produce(client, number):
    producer = Producer(client)
    for partition in range(PARTITIONS):
        for _ in range(number):
            producer.produce(TOPIC, partition=partition, value=b"x")
    assert producer.flush(30) == 0


def truth(client, group):
    """Lag of a group by partition, as the brokers know it; 0 where nobody of it reads."""
    admin = AdminClient(client)
    request = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(request)[group].result(30).topic_partitions
    committed = {one.partition: one.offset for one in found if one.topic == TOPIC}
    ends = log_offsets(admin, TOPIC, range(PARTITIONS))
    return tuple(
        ends[number] - committed[number] if number in committed else 0
        for number in range(PARTITIONS)
    )


def published(client, group):
    """The newest lag record of a group."""
    found = None
    for read in read_to_end(client, TOPICS, ["lag"]):
        if isinstance(read.record, LagRecord):
            found = read.record if read.record.group == group else found
    return found


def shows_the_truth(client, group, polls=lambda: None):
    def same():
        polls()
        record = published(client, group)
        return record is not None and record.lag == truth(client, group)

    wait_until(f"lag of {group}", same, within=300, pause=0.5)


def shows_the_racks(client, group, polls):
    """Wait: brokers that stood still may have had a member join again."""

    def both():
        polls()
        return sorted(published(client, group).member_racks or ()) == ["a", "b"]

    wait_until(f"racks of {group}", both, shown=lambda: published(client, group), pause=0.5)


def test_groups_are_watched_and_led_where_nobody_may_read_the_offsets_topic(
    brokers, client, release, tmp_path
):
    groups = dict(GROUPS)
    if release in WITHOUT_KIP_848:
        del groups["kip848"]
    user = brokers.scram_user("planner-user")
    rights = printed(
        *("--set", "commits.source=poll", "--topic", TOPIC, "--principal", user.principal)
    )
    grant(brokers.admin, rights)
    produce(client, RECORDS)
    settings = kafka_settings(user)
    bootstrap = user.librdkafka["bootstrap.servers"]
    daemon = DaemonProcess(bootstrap, tmp_path / "first", *settings)
    try:
        daemon.wait_for("the lead", lambda: daemon.logged("daemon.leading"))
        with ExitStack() as closed:
            members = {}
            for group, protocol in groups.items():
                config = {**client, "group.id": group, "enable.auto.commit": False, **protocol}
                members[group] = [
                    closed.enter_context(closing(Consumer(config | {"client.rack": rack})))
                    for rack in ("a", "b")
                ]
            subscribed = [each for group in groups if group != "simple" for each in members[group]]
            for member in subscribed:
                member.subscribe([TOPIC])

            def polls():
                for member in subscribed:
                    member.poll(0.05)

            wait_until(
                "all own partitions",
                lambda: polls() or all(member.assignment() for member in subscribed),
                pause=0,
            )
            for member in subscribed:
                offsets = [TopicPartition(TOPIC, one.partition, 30) for one in member.assignment()]
                member.commit(offsets=offsets, asynchronous=False)
            simple = members["simple"][0]
            commit_offsets(simple, [TopicPartition(TOPIC, 2, 11)])
            for group in groups:
                shows_the_truth(client, group, polls)
            assert daemon.logged("commits.topic_unreadable")
            for group in groups.keys() - {"simple"}:
                shows_the_racks(client, group, polls)
            with ManagedConsumer(
                {"auto.offset.reset": "earliest", **client}, group="managed", topics=[TOPIC]
            ) as managed:
                poll_until(managed, lambda values: len(values) == PARTITIONS * RECORDS)
                managed.commit(asynchronous=False)
                shows_the_truth(client, "managed", lambda: managed.poll(0.1))
            daemon.stop()
            # Another daemon goes on from the topic, and writes no commit again that it has.
            before = ends(client)
            daemon = DaemonProcess(bootstrap, tmp_path / "second", *settings)
            commit_offsets(simple, [TopicPartition(TOPIC, 2, 12)])
            shows_the_truth(client, "simple", polls)
            assert sum(ends(client).values()) - sum(before.values()) < 20
        shows_the_truth(client, "simple")
    finally:
        daemon.stop()
    for number in (1, 2, 3):
        made = decisions(brokers.cluster.log(number))
        asked = [one for one in made if one.user == user.name and one.allowed]
        assert [one for one in asked if one.name == OFFSETS_TOPIC] == []


def ends(client):
    return log_offsets(AdminClient(client), TOPICS.commits, range(4))
