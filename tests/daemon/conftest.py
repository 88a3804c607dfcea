"""What the daemon's tests share: a log to look into, and topics of one's own on the session's cluster."""

import time
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from assignors.protocol.topics import Topics
from daemon.kafka.topic_setup import ensure_topics
from daemon.kafka.topic_specs import TopicSettings


class RecordedLog:
    """A logger that remembers: events by name, each a mapping of its fields and its level."""

    def __init__(self):
        self.events = []

    def __getattr__(self, level):
        return lambda event, **fields: self.events.append(
            {"event": event, "level": level, **fields}
        )

    def of(self, event):
        return [one for one in self.events if one["event"] == event]

    @property
    def names(self):
        return [one["event"] for one in self.events]


@pytest.fixture
def log():
    return RecordedLog()


@pytest.fixture
def client_config(cluster):
    return {"bootstrap.servers": cluster.bootstrap}


@pytest.fixture
def topics(client_config, fresh, log):
    """Our topics, under a prefix that nobody else has."""
    topics = Topics(fresh("lw") + ".")
    ensure_topics(client_config, topics, TopicSettings(), log)
    log.events.clear()
    return topics


@pytest.fixture
def kafka(client_config):
    """Makes and removes topics."""
    admin = AdminClient(client_config)
    # Brokers hear of a topic one after the other: each is asked by a client that knows no other at first.
    each = [
        AdminClient({"bootstrap.servers": address})
        for address in client_config["bootstrap.servers"].split(",")
    ]

    def create(name, partitions=1, replication=1, **config):
        admin.list_topics(timeout=10)
        admin.create_topics([NewTopic(name, partitions, replication, config=config)])[name].result()
        eventually(lambda: all(leaders(one, name) == partitions for one in each))

    def leaders(client, name):
        known = client.list_topics(timeout=10).topics.get(name)
        return known and sum(one.leader >= 0 for one in known.partitions.values())

    def delete(name):
        admin.delete_topics([name])[name].result()
        eventually(lambda: not any(name in one.list_topics(timeout=10).topics for one in each))

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
