"""What each broker says for itself: brokers learn of a change one after the other.

librdkafka asks any broker that it has heard of, also as its first question, and lacks some of the
requests, so this module asks over connections of the daemon's own.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.kafka.types import Reader, int32
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import open_connection
from levelwind.daemon.wire.client_security import client_security
from levelwind.daemon.wire.group_requests import Request
from levelwind_testing.waiting import wait_until


class ListedPartition(NamedTuple):
    """A partition, as a broker lists it."""

    leader: int
    """-1: none."""
    replicas: list[int]
    in_sync: list[int]


ListedTopics = Mapping[str, Mapping[int, ListedPartition]]
"""Partitions by topic and number."""


def answers(config: Mapping[str, Any], request: Request, within: float = 60.0) -> Iterator[Any]:
    """Ask the broker at each address of a cluster one question, one broker after the other.

    Args:
        config: as librdkafka's.
        request: the question.
        within: longest time of a connection to open, and then of its answer, in seconds.

    Raises:
        ConnectionFailedError: a broker cannot be reached.
        TimeoutError: a broker hangs.
    """
    with ThreadPoolExecutor(1) as thread:  # the test's own may have a loop, as a browser's has
        for address in addresses(config["bootstrap.servers"]):
            yield thread.submit(asyncio.run, _answer(address, config, request, within)).result()


def topics_at_each_broker(config: Mapping[str, Any]) -> Iterator[ListedTopics]:
    """The topics that each broker lists."""
    return answers(config, TopicsRequest())


def create_topics(config: Mapping[str, Any], *new: NewTopic) -> None:
    """Create topics, and wait until each broker knows them.

    The leader of a classic group assigns what the coordinator knows of a topic, at worst nothing,
    and no member hears of it when the coordinator knows more.
    """
    admin = AdminClient({**config, "log_level": 0})
    for answer in admin.create_topics(list(new)).values():
        answer.result(60)
    await_topics(config, *(each.topic for each in new))


def await_topics(config: Mapping[str, Any], *names: str) -> None:
    """Wait until each broker knows the leaders of all partitions of some topics."""

    def are_led(topics: ListedTopics) -> bool:
        return all(
            name in topics and all(p.leader >= 0 for p in topics[name].values()) for name in names
        )

    wait_until(
        f"leaders of {', '.join(names)} at each broker",
        lambda: all(map(are_led, topics_at_each_broker(config))),
    )


async def _answer(
    address: tuple[str, int], config: Mapping[str, Any], request: Request, within: float
) -> Any:
    security = client_security(config)
    connection = await open_connection(*address, security, "levelwind-tests", within)
    try:
        async with asyncio.timeout(within):  # a broker may hang while its host answers
            return await connection.ask(request)
    finally:
        connection.close()


class TopicsRequest:
    """Question for all topics: Metadata version 1."""

    KEY: ClassVar = 3
    VERSION: ClassVar = 1

    def body(self) -> bytes:
        return int32(-1)  # all topics

    def read(self, fields: Reader) -> ListedTopics:
        for _ in range(fields.int32()):  # brokers: number, host, port, rack
            fields.int32(), fields.string(), fields.int32(), fields.nullable_string()
        fields.int32()  # the controller
        return dict(_topic(fields) for _ in range(fields.int32()))


def _topic(fields: Reader) -> tuple[str, dict[int, ListedPartition]]:
    fields.int16()  # an error: that a partition has no leader
    name = fields.string()
    fields.int8()  # whether it is one of Kafka's own
    return name, dict(_partition(fields) for _ in range(fields.int32()))


def _partition(fields: Reader) -> tuple[int, ListedPartition]:
    fields.int16()
    number, leader = fields.int32(), fields.int32()
    replicas, in_sync = ([fields.int32() for _ in range(fields.int32())] for _ in range(2))
    return number, ListedPartition(leader, replicas, in_sync)
