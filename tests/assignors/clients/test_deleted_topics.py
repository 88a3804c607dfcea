"""No client makes a deleted topic again by asking for it, on brokers that would allow it."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from levelwind.assignors.clients.confluent.settings import client_settings, member_profile
from levelwind.assignors.handover.timers import Timers
from levelwind.daemon.kafka import clients

CREATES_ON_DEMAND = {"test.mock.num.brokers": 1, "log_level": 0}
"""librdkafka's own cluster, which makes each topic that a client allows it to make."""


def settings_of_a_member():
    config = {"bootstrap.servers": "replaced:1"}
    profile = member_profile(
        config,
        group="g",
        topics=["t"],
        rack=None,
        instance="i",
        fencing="none",
        priority=0,
        capacity=1.0,
        prefix="lw.",
    )
    return client_settings(config, profile=profile, timers=Timers())


MAKERS = {
    "a member's admin client": lambda: AdminClient(
        {**settings_of_a_member().admin, **CREATES_ON_DEMAND}
    ),
    "a member's announcer": lambda: Producer(
        {**settings_of_a_member().producer, **CREATES_ON_DEMAND}
    ),
    "a member's reader": lambda: Consumer({**settings_of_a_member().reader, **CREATES_ON_DEMAND}),
    "the daemon's admin client": lambda: clients.admin(CREATES_ON_DEMAND),
    "the daemon's producer": lambda: clients.producer(CREATES_ON_DEMAND, {}),
    "the daemon's consumer": lambda: clients.consumer({**CREATES_ON_DEMAND, "group.id": "g"}, {}),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_topic_that_is_asked_for_is_not_made(make):
    client = make()
    for _ in range(2):
        answer = client.list_topics("orders", timeout=60).topics["orders"]
        assert answer.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_client_that_allows_it_has_it_made():
    client = AdminClient(CREATES_ON_DEMAND)
    assert client.list_topics("orders", timeout=60).topics["orders"].error is None
