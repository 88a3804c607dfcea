"""Fixtures of the daemon's tests: a log that is kept, and topics for one test on the cluster."""

import time
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from assignors.protocol.topics import Topics
from daemon.kafka.topic_setup import ensure_topics
from daemon.kafka.topic_specs import TopicSettings


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
def client_config(cluster):
    return {"bootstrap.servers": cluster.bootstrap}


@pytest.fixture
def topics(client_config, fresh, log):
    """Levelwind's topics, under a prefix of this test."""
    topics = Topics(fresh("lw") + ".")
    ensure_topics(client_config, topics, TopicSettings(), log)
    log.events.clear()
    return topics


@pytest.fixture
def kafka(client_config):
    """Creates and deletes topics."""
    admin = AdminClient(client_config)
    # Brokers learn of a topic one after the other: each has a client that knows no other at first.
    each = [
        AdminClient({**client_config, "bootstrap.servers": address})
        for address in client_config["bootstrap.servers"].split(",")
    ]

    def create(name, partitions=1, replication=1, **config):
        admin.list_topics(timeout=10)
        admin.create_topics([NewTopic(name, partitions, replication, config=config)])[name].result()
        eventually(lambda: all(leaders(client, name) == partitions for client in each))

    def leaders(client, name):
        topic = client.list_topics(timeout=10).topics.get(name)
        return topic and sum(p.leader >= 0 for p in topic.partitions.values())

    def delete(name):
        admin.delete_topics([name])[name].result()
        eventually(
            lambda: not any(name in client.list_topics(timeout=10).topics for client in each)
        )

    return SimpleNamespace(admin=admin, create=create, delete=delete)


def eventually(holds, within=30.0):
    """Wait until something holds; a test that fails here would wait for ever."""
    until = time.monotonic() + within
    while not (answer := holds()):
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)
    return answer


@pytest.fixture(name="eventually")
def _eventually():
    return eventually
