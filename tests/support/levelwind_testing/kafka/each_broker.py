"""A client for each broker, which asks that one: brokers learn of a change one after the other."""

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from levelwind_testing.waiting import wait_until


def each_broker(config: Mapping[str, Any]) -> Iterator[AdminClient]:
    """Make a client for each address of a cluster, whose first question goes to that broker.

    A client that has had an answer may ask any broker that it knows by then: make them anew for
    each look.
    """
    for address in config["bootstrap.servers"].split(","):
        yield AdminClient({**config, "bootstrap.servers": address})


def await_topic(config: Mapping[str, Any], topic: str) -> None:
    """Wait until each broker knows the leaders of all of a topic's partitions."""

    def is_led(client: AdminClient) -> bool:
        # All topics: a question for one would create it where brokers do that.
        listed = client.list_topics(timeout=30).topics.get(topic)
        return listed is not None and all(p.leader >= 0 for p in listed.partitions.values())

    wait_until(f"leaders of {topic} at each broker", lambda: all(map(is_led, each_broker(config))))
