"""Commits of consumers that assign partitions to themselves."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from levelwind_testing.kafka.described_group import lacks_coordinator
from levelwind_testing.waiting import wait_until


def commit_offsets(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commit offsets, also while the brokers choose the coordinator of the group.

    Where brokers have just started, the first commit has them create the offsets topic, and one of
    them is named as coordinator before it knows. librdkafka tries again for less time than that
    takes on a busy machine.
    """

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if lacks_coordinator(error):
                return False
            raise
        return True

    wait_until("commit", is_committed)
