"""Moves replicas of real brokers with AlterPartitionReassignments, which librdkafka lacks.

Kafka's own tool for it is in a jar that nothing else here needs, so this module writes the request
itself: header version 2 and body version 0, to any broker, which forwards it to the controller.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import ElectionType, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from levelwind_testing.kafka.each_broker import ListedTopics, topics_at_each_broker
from levelwind_testing.waiting import wait_until

ALTER_PARTITION_REASSIGNMENTS = 45
NO_TAGS = b"\0"
REQUEST_SECONDS = 60.0


def reassign(bootstrap: str, topic: str, placement: Mapping[int, Sequence[int]]) -> None:
    """Assign replicas to partitions, preferred leaders first, and wait until they are in sync."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=REQUEST_SECONDS) as connection:
        request = _request(topic, placement)
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (length,) = struct.unpack(">i", answer.read(4))
            _check(answer.read(length), topic, len(placement))
    wait_until(
        f"{topic} at {placement} at each broker",
        lambda: all(
            _placed(topics, topic, placement)
            for topics in topics_at_each_broker({"bootstrap.servers": bootstrap})
        ),
    )


def _request(topic: str, placement: Mapping[int, Sequence[int]]) -> bytes:
    partitions = b"".join(
        struct.pack(">i", number)
        + _count(len(replicas))
        + struct.pack(f">{len(replicas)}i", *replicas)
        + NO_TAGS
        for number, replicas in placement.items()
    )
    topics = (
        _count(1)
        + _count(len(topic))
        + topic.encode()
        + _count(len(placement))
        + partitions
        + NO_TAGS
    )
    header = struct.pack(">hhih", ALTER_PARTITION_REASSIGNMENTS, 0, 1, -1) + NO_TAGS
    return header + struct.pack(">i", 30_000) + topics + NO_TAGS


def _count(number: int) -> bytes:
    """A compact length as an unsigned varint: one more, since 0 is null."""
    number += 1
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def _check(answer: bytes, topic: str, partitions: int) -> None:
    # Correlation id, tags, throttle time, error 0, a null message, one topic with its partitions,
    head = struct.pack(">i", 1) + NO_TAGS + struct.pack(">ih", 0, 0) + b"\0"
    body = _count(1) + _count(len(topic)) + topic.encode() + _count(partitions)
    assert answer.startswith(head + body), f"refused: {answer!r}"
    # each with its number, error 0, a null message and no tags.
    rest = answer[len(head + body) : len(head + body) + 8 * partitions]
    errors = [struct.unpack(">ihbb", rest[at : at + 8])[1:] for at in range(0, 8 * partitions, 8)]
    assert errors == [(0, 0, 0)] * partitions, f"refused: {answer!r}"


def _placed(topics: ListedTopics, topic: str, placement: Mapping[int, Sequence[int]]) -> bool:
    listed = topics.get(topic, {})
    return all(
        number in listed
        and listed[number].replicas == list(replicas)
        and set(listed[number].in_sync) == set(replicas)
        for number, replicas in placement.items()
    )


def lead_again(bootstrap: str, topic: str, number: int) -> None:
    """Let another replica lead a partition, and then its leader again: two epochs later."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(TopicCollection([topic]))[topic].result().partitions[number]
    leader, *others = sorted(
        (node.id for node in described.replicas), key=lambda node: node != described.leader.id
    )

    def led_by(broker: int) -> bool:
        """Whether a broker leads; if not, its election is asked for."""
        listed = admin.list_topics(topic, timeout=10).topics[topic].partitions
        if listed[number].leader == broker:
            return True
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, number)]).result()
        return False

    for replicas in ([*others, leader], [leader, *others]):
        reassign(bootstrap, topic, {number: replicas})
        wait_until(f"lead of {topic}[{number}] by {replicas[0]}", partial(led_by, replicas[0]))
