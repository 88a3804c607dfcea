"""Offsets of a topic's logs; brokers learn of topics and leaders one after another."""

from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from levelwind_testing.waiting import wait_until

NOT_KNOWN_YET = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
}
"""Errors of a broker that has not heard of a topic, or of a partition's leader."""


def log_offsets(
    admin: AdminClient,
    topic: str,
    partitions: Iterable[int],
    spec: OffsetSpec | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[int, int]:
    """Offsets by partition.

    Args:
        admin: the client that asks.
        topic: the topic.
        partitions: the numbers of its partitions.
        spec: which offsets; None for the log ends.
        isolation: READ_COMMITTED for the stable offsets of the log ends.
    """
    asked = {TopicPartition(topic, number): spec or OffsetSpec.latest() for number in partitions}

    def answer() -> dict[int, int]:
        found = admin.list_offsets(asked, isolation_level=isolation)
        try:
            return {at.partition: future.result(30).offset for at, future in found.items()}
        except KafkaException as error:
            if error.args[0].code() not in NOT_KNOWN_YET:
                raise
            return {}

    return wait_until(f"offsets of {topic}", answer) if asked else {}
