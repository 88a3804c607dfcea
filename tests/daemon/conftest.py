"""Fixtures of the daemon's tests: a log that is kept, topics of one test, and a broker to kill."""

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.topics import Topics
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.deploy.cluster import Cluster
from levelwind_testing.kafka.each_broker import await_topics, create_topics, topics_at_each_broker
from levelwind_testing.kafka.scripted_broker import ScriptedBroker
from levelwind_testing.waiting import wait_until

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
CREATING = {"auto.create.topics.enable": "true"}


class RecordedLog:
    """A logger that keeps its events, each a mapping with its name, level and fields."""

    def __init__(self):
        self.events = []

    def __getattr__(self, level):
        return lambda event, **fields: self.events.append(
            {"event": event, "level": level, **fields}
        )

    def of(self, event):
        return [entry for entry in self.events if entry["event"] == event]

    @property
    def names(self):
        return [event["event"] for event in self.events]


@pytest.fixture
def log():
    return RecordedLog()


@pytest.fixture
def broker():
    """A broker in a thread of the test's process, which answers as a test wants it to."""
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def other():
    """Another one."""
    with ScriptedBroker() as other:
        yield other


@pytest.fixture
def client_config(cluster):
    return {"bootstrap.servers": cluster.bootstrap}


@pytest.fixture(scope="session")
def own_cluster():
    """One broker that a test may kill, if it starts it again, for the tests of one process.

    It checks rights, of which everybody has all while there is no rule for what is asked, and
    creates each topic that somebody writes to.
    """
    with Cluster.start(1, settings=AUTHORIZER | CREATING) as cluster:
        yield cluster


@pytest.fixture
def killed(own_cluster):
    """Kills the broker of `own_cluster` for the length of a block: `with killed():`."""

    @contextmanager
    def killed():
        own_cluster.kill(1)
        try:
            yield
        finally:
            own_cluster.start_broker(1)

    return killed


@pytest.fixture
def topics(client_config, fresh, log):
    """Levelwind's topics, under a prefix of this test."""
    topics = Topics(fresh("lw") + ".")
    await_topics(client_config, *ensure_topics(client_config, topics, TopicSettings(), log))
    log.events.clear()
    return topics


@pytest.fixture
def kafka(client_config):
    """Creates and deletes topics."""
    admin = AdminClient(client_config)

    def create(name, partitions=1, replication=1, **config):
        admin.list_topics(timeout=10)
        create_topics(client_config, NewTopic(name, partitions, replication, config=config))

    def delete(name):
        admin.delete_topics([name])[name].result()
        wait_until(
            f"end of {name} at each broker",
            lambda: all(name not in topics for topics in topics_at_each_broker(client_config)),
        )

    return SimpleNamespace(admin=admin, create=create, delete=delete)


@pytest.fixture
def eventually():
    """Waits until something holds, and returns it: `eventually(lambda: records)`."""
    return partial(wait_until, "event that the test awaits")
