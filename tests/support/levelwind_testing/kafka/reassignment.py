"""Moves replicas of real brokers with AlterPartitionReassignments, which librdkafka lacks.

Kafka's own tool for it is in a jar that nothing else here needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from confluent_kafka import ElectionType, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from levelwind.assignors.protocol.kafka.types import (
    Reader,
    compact_array,
    compact_string,
    int32,
)
from levelwind_testing.kafka.each_broker import ListedTopics, answers, topics_at_each_broker
from levelwind_testing.waiting import wait_until

NO_TAGS = b"\0"


def reassign(bootstrap: str, topic: str, placement: Mapping[int, Sequence[int]]) -> None:
    """Assign replicas to partitions, preferred leaders first, and wait until they are in sync."""
    config = {"bootstrap.servers": bootstrap}
    # Any broker forwards it to the controller.
    refusals = next(answers(config, ReassignmentRequest(topic, placement)))
    assert refusals == [], f"refused: {refusals}"
    wait_until(
        f"{topic} at {placement} at each broker",
        lambda: all(_placed(topics, topic, placement) for topics in topics_at_each_broker(config)),
    )


@dataclass(frozen=True, slots=True)
class ReassignmentRequest:
    """Order to move replicas of one topic: AlterPartitionReassignments version 0."""

    KEY: ClassVar = 45
    VERSION: ClassVar = 0
    FLEXIBLE: ClassVar = True

    topic: str
    placement: Mapping[int, Sequence[int]]

    def body(self) -> bytes:
        partitions = [
            int32(number) + compact_array([int32(replica) for replica in replicas]) + NO_TAGS
            for number, replicas in self.placement.items()
        ]
        topic = compact_string(self.topic) + compact_array(partitions) + NO_TAGS
        return int32(30_000) + compact_array([topic]) + NO_TAGS

    def read(self, fields: Reader) -> list[tuple[int, str | None]]:
        """Errors with their texts, of the order and of each partition."""
        fields.int32()  # throttle time
        errors = [_error(fields)]
        for _ in range(fields.uvarint() - 1):
            fields.string(compact=True)
            for _ in range(fields.uvarint() - 1):
                fields.int32()
                errors.append(_error(fields))
                fields.tags()
            fields.tags()
        return [error for error in errors if error[0] != 0]


def _error(fields: Reader) -> tuple[int, str | None]:
    return fields.int16(), fields.nullable_string(compact=True)


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
