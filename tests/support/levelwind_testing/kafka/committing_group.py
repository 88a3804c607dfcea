"""A group that commits and has no members, and what levelwind's topics say of it."""

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from levelwind.assignors.protocol.records import LagRecord, PipelineRecord
from levelwind.daemon.config.settings import load
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.newest_record import newest_record
from levelwind_testing.kafka.plain_commits import commit_offsets

RECORDS = 100
"""The records of the one partition that it reads."""


class CommittingGroup:
    def __init__(self, bootstrap: str, prefix: str, topic: str) -> None:
        self._settings = load(overrides={"bootstrap": bootstrap, "prefix": prefix})
        self._topic = topic
        create_topics({"bootstrap.servers": bootstrap}, NewTopic(topic, 1, 1))
        producer = Producer({"bootstrap.servers": bootstrap})
        for _ in range(RECORDS):
            producer.produce(topic, b"record")
        producer.flush(30)
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-readers"})

    def commit(self, offset: int) -> None:
        commit_offsets(self._consumer, [TopicPartition(self._topic, 0, offset)])

    def lag_is(self, expected: int) -> bool:
        """Whether the newest lag that the pipeline has published is this one."""
        record = newest_record(self._settings, "lag", LagRecord)
        return record is not None and record.lag == (expected,)

    def pipeline(self) -> PipelineRecord | None:
        """The pipeline's newest record of its progress."""
        return newest_record(self._settings, "triggers", PipelineRecord)

    def close(self) -> None:
        self._consumer.close()
