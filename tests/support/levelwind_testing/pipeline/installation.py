"""Topics of one installation on real brokers; tests write and read them as the daemon would."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from levelwind.assignors.protocol.records import (
    OffsetsRecord,
    Record,
    Tombstone,
    TopicRecord,
    encode,
    encode_key,
    partition_key,
)
from levelwind.assignors.protocol.topics import LARGEST_WIDE_BYTES, Topics, partition_for
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.log_offsets import log_offsets
from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.waiting import wait_until

PARTITIONS = {
    "metadata": 1,
    "assignments": 2,
    "lag": 3,
    "triggers": 2,
    "dead-letters": 2,
    "replays": 2,
}


@dataclass(slots=True)
class Installation:
    bootstrap: str
    prefix: str
    replication: int = 2
    admin: AdminClient = field(init=False)
    producer: Producer = field(init=False)
    _reader: Consumer = field(init=False)
    _read: dict[tuple[str, int], list[tuple[list[Any], Any]]] = field(default_factory=dict)
    """Records by topic and partition, as far as they have been read."""
    _positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """Next offset to read of each partition."""

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        self._reader = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        for name, partitions in PARTITIONS.items():
            wide = {"max.message.bytes": str(LARGEST_WIDE_BYTES)} if name == "lag" else {}
            self.create(self.prefix + name, partitions, **{"cleanup.policy": "compact"}, **wide)

    @property
    def topics(self) -> Topics:
        return Topics(self.prefix)

    def create(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        **config: str,
    ) -> None:
        new = NewTopic(
            topic,
            partitions,
            **(
                {"replica_assignment": replicas}
                if replicas
                else {"replication_factor": self.replication}
            ),
            config=config,
        )
        create_topics({"bootstrap.servers": self.bootstrap}, new)

    def fill(self, topic: str, counts: Sequence[int]) -> None:
        """Write the given number of records into each partition."""
        for partition, count in enumerate(counts):
            for number in range(count):
                self.producer.produce(topic, str(number), partition=partition)
        self.producer.flush()

    def publish(self, record: Record | Tombstone, *, at: int | None = None) -> None:
        ours = {"group": "assignments", "member_assignment": "assignments"}
        key, value = (
            (encode_key(record.key), None) if isinstance(record, Tombstone) else encode(record)
        )
        kind = "metadata" if isinstance(record, Tombstone) else ours.get(record.KIND, "metadata")
        partition = partition_for(partition_key(record.key) or "", PARTITIONS[kind])
        self.producer.produce(self.prefix + kind, value, key, partition, timestamp=at or now())
        self.producer.flush()

    def observe(self, topic: str) -> TopicRecord:
        """Publish the present layout of a topic."""
        described = self._described(topic)
        partitions = sorted(described.partitions, key=lambda partition: partition.id)
        record = TopicRecord(
            topic=topic,
            at=now(),
            id=self._id(described),
            leader=tuple(partition.leader.id for partition in partitions),
            replicas=tuple(
                tuple(node.id for node in partition.replicas) for partition in partitions
            ),
            isr=tuple(tuple(node.id for node in partition.isr) for partition in partitions),
            racks=tuple(
                tuple(sorted({node.rack for node in partition.replicas}))
                for partition in partitions
            ),
        )
        self.publish(record)
        return record

    def sample(self, topic: str) -> OffsetsRecord:
        """Publish a sample of the present offsets of a topic."""
        described = self._described(topic)
        partitions = [partition.id for partition in described.partitions]

        def offsets(spec: OffsetSpec, isolation: IsolationLevel) -> tuple[int, ...]:
            found = log_offsets(self.admin, topic, partitions, spec, isolation)
            return tuple(found[number] for number in partitions)

        uncommitted = IsolationLevel.READ_UNCOMMITTED
        record = OffsetsRecord(
            topic=topic,
            at=now(),
            id=self._id(described),
            begin=offsets(OffsetSpec.earliest(), uncommitted),
            stable=offsets(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
            high=offsets(OffsetSpec.latest(), uncommitted),
        )
        self.publish(record)
        return record

    def ends(self, topic: str) -> tuple[int, ...]:
        """The stable end of each partition of a topic."""
        partitions = [partition.id for partition in self._described(topic).partitions]
        found = log_offsets(self.admin, topic, partitions, isolation=IsolationLevel.READ_COMMITTED)
        return tuple(found[number] for number in sorted(found))

    def _described(self, topic: str) -> Any:
        def answer() -> Any:
            try:
                return self.admin.describe_topics(TopicCollection([topic]))[topic].result()
            except KafkaException as error:  # brokers hear of a topic one after another
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                return None

        return wait_until(f"topic {topic}", answer)

    @staticmethod
    def _id(described: Any) -> str:
        return str(described.topic_id).translate(str.maketrans("+/", "-_"))

    def garbage(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Write bytes into any topic; only this client id may write into the brokers' own topics.

        A coordinator that cannot read a record of its partition serves no group of that partition
        any more: write garbage into the offsets topic only on brokers that no other test uses.
        """
        producer = Producer({"bootstrap.servers": self.bootstrap, "client.id": "__admin_client"})
        failed: list[Any] = []
        producer.produce(
            topic,
            value,
            key,
            0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.flush()
        assert not failed, failed

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit offsets as a consumer that assigns partitions to itself."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": group, "enable.auto.commit": False}
        )
        commit_offsets(consumer, [TopicPartition(topic, p, o) for p, o in offsets.items()])
        consumer.close()

    def records(self, name: str) -> list[tuple[list[Any], Any]]:
        """All records of one of levelwind's topics, parsed, by partition and offset.

        Each is read once: tests ask again and again while they wait for a record.
        """
        return [
            record
            for partition in range(PARTITIONS[name])
            for record in self._records_of(name, partition)
        ]

    def _records_of(self, name: str, partition: int) -> list[tuple[list[Any], Any]]:
        found = self._read.setdefault((name, partition), [])
        position = self._positions.get((name, partition), 0)
        here = TopicPartition(self.prefix + name, partition, position)
        _, end = self._reader.get_watermark_offsets(here)
        if position < end:
            self._reader.assign([here])
        while position < end:
            message = self._reader.poll(60)
            assert message is not None, "one of levelwind's topics does not answer"
            assert message.error() is None, message.error()
            position = message.offset() + 1
            raw = message.value()
            found.append((json.loads(message.key()), None if raw is None else json.loads(raw)))
        self._positions[name, partition] = position
        return found

    def latest(self, name: str) -> dict[tuple[Any, ...], Any]:
        """Newest value of each key of one of levelwind's compacted topics."""
        latest = {tuple(key): value for key, value in self.records(name)}
        return {key: value for key, value in latest.items() if value is not None}

    def lag_of(self, group: str, topic: str) -> dict[str, Any]:
        """The newest lag record of a group and a topic; empty: there is none."""
        return self.latest("lag").get(("lag", group, topic)) or {}


def now() -> int:
    return int(time.time() * 1000)
