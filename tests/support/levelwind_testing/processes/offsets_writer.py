"""Commits in bulk, written to `__consumer_offsets` as by a coordinator, and samples of offsets."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.records import (
    MemberAssignment,
    OffsetsRecord,
    TopicRecord,
    encode,
)
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, Topics
from levelwind.daemon.wall_clock import now_ms
from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.waiting import wait_until

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
RAW_ID = bytes(15) + b"\x01"
OFFSETS_PARTITIONS = 4
COORDINATOR = "__admin_client"
"""The one client id from which brokers take records of their own topics."""
FIRST_END = 10**9
"""End of a partition before anything is committed under load."""


@dataclass(frozen=True, slots=True)
class Load:
    """A number of commits, and of the groups, topics and partitions of their keys."""

    commits: int
    groups: int
    topics: int
    partitions: int
    owners: int = 0
    """Members of each group, which share the partitions of each topic; 0: none is known."""
    topics_each: int = 0
    """Topics that each group reads; 0: all of them."""
    offsets_partitions: int = OFFSETS_PARTITIONS
    """Partitions of `__consumer_offsets`."""

    @property
    def keys(self) -> int:
        return min(self.commits, self.groups * self.read_by_each * self.partitions)

    @property
    def read_by_each(self) -> int:
        """Topics that each group reads."""
        return self.topics_each or self.topics

    def topics_of(self, group: int) -> range | tuple[int, ...]:
        """The numbers of the topics that a group reads."""
        if not self.topics_each:
            return range(self.topics)
        first = group * self.topics_each
        return tuple((first + number) % self.topics for number in range(self.topics_each))

    @property
    def topic_sizes(self) -> tuple[tuple[str, int], ...]:
        """Names of the topics, each with its number of partitions."""
        return tuple((f"topic-{topic}", self.partitions) for topic in range(self.topics))


@dataclass(slots=True)
class OffsetsWriter:
    """Writes commits as a group coordinator does, and samples as the observer does."""

    bootstrap: str
    topics: Topics = field(default_factory=Topics)
    ids: dict[str, str] = field(default_factory=dict)
    """Topic ids by name, of the topics that exist; the topics of the backlog do not."""
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "client.id": COORDINATOR,
                "linger.ms": 20,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def create(self, real: str, partitions: int) -> None:
        """Create levelwind's topics, one for a real consumer, and the offsets topic."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = [
            NewTopic(self.topics.name(kind), 1, 1)
            for kind in ("metadata", "assignments", "dead_letters", "replays")
        ]
        new += [NewTopic(self.topics.name(kind), 4, 1) for kind in ("lag", "triggers")]
        new.append(NewTopic(real, partitions, 1))
        create_topics({"bootstrap.servers": self.bootstrap}, *new)
        described = wait_until(f"topic {real}", lambda: known_topic(admin, real))
        self.ids[real] = str(described.topic_id).translate(str.maketrans("+/", "-_"))
        asked = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "asked"})
        # Brings the offsets topic into being.
        wait_until("coordinator of a group", lambda: asked_for(asked, real))
        asked.close()

    def layout(self, topic: str, partitions: int) -> None:
        each = (1,) * partitions
        self.publish(
            TopicRecord(
                topic=topic,
                at=now_ms(),
                id=self.ids.get(topic, ID),
                leader=each,
                replicas=((1,),) * partitions,
                isr=((1,),) * partitions,
                racks=(("a",),) * partitions,
            )
        )

    def sample(
        self,
        topic: str,
        partitions: int,
        end: int = FIRST_END,
        cut: tuple[int, ...] | None = None,
        at: int | None = None,
    ) -> None:
        """Publish a sample.

        Args:
            topic: name of the topic.
            partitions: its number of partitions.
            end: end of each.
            cut: ends of the offsets topic, by partition; None: it is not known which commits the
                sample counts.
            at: its time; None: now.
        """
        ends = (end,) * partitions
        self.publish(
            OffsetsRecord(
                topic=topic,
                at=now_ms() if at is None else at,
                id=self.ids.get(topic, ID),
                begin=(0,) * partitions,
                stable=ends,
                high=ends,
                offsets_topic_ends=cut,
            )
        )

    def assign_owners(self, load: Load) -> None:
        """Give each group of a load its members, as levelwind's planner does."""
        for member in member_assignments(load):
            self.publish(member, self.topics.assignments)
        self.producer.flush()

    def publish(
        self, record: TopicRecord | OffsetsRecord | MemberAssignment, topic: str | None = None
    ) -> None:
        key, value = encode(record)
        self.producer.produce(topic or self.topics.metadata, value, key)
        self.producer.poll(0)

    def backlog(self, load: Load) -> None:
        keys = commit_keys(load)
        at = now_ms()
        for number in range(load.commits):
            partition, key = keys[number % len(keys)]
            self.write(key, commit_value(number, at + number // 1000), partition)
        self.producer.flush()

    def write(
        self,
        key: bytes,
        value: bytes,
        partition: int,
        on_delivery: Callable[..., None] | None = None,
    ) -> None:
        while True:
            try:
                self.producer.produce(OFFSETS_TOPIC, value, key, partition, on_delivery=on_delivery)
            except BufferError:
                self.producer.poll(0.1)
            else:
                return


def member_assignments(load: Load) -> Iterator[MemberAssignment]:
    """The members of each group of a load, which share each topic's partitions in turn."""
    for group in range(load.groups):
        for number in range(load.owners):
            owned = tuple(range(number, load.partitions, load.owners))
            yield MemberAssignment(
                group=f"group-{group}",
                instance=f"instance-{number}",
                incarnation="0",
                planner_epoch=1,
                group_epoch=1,
                member_epoch=1,
                state="active",
                assigned={f"topic-{topic}": owned for topic in load.topics_of(group)},
                pending={},
                revoking={},
                rack="a",
                capacity=1.0,
                reason="",
            )


def commit_key(group: str, topic: str, partition: int) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in (group, topic))
    return struct.pack(">h", 1) + names + struct.pack(">i", partition)


def commit_value(offset: int, at: int, topic_id: bytes = RAW_ID) -> bytes:
    return struct.pack(">hqiBqBBB", 4, offset, -1, 1, at, 1, 0, 16) + topic_id


def commit_keys(load: Load, groups: range | None = None) -> list[tuple[int, bytes]]:
    """Each key with its partition of the offsets topic, of all groups or of some."""
    return [
        (group % load.offsets_partitions, commit_key(f"group-{group}", f"topic-{topic}", partition))
        for partition in range(load.partitions)
        for number in range(load.read_by_each)
        for group in (range(load.groups) if groups is None else groups)
        for topic in (load.topics_of(group)[number],)
    ]


def asked_for(consumer: Consumer, topic: str) -> Any:
    try:
        return consumer.committed([TopicPartition(topic, 0)], timeout=30)
    except KafkaException:  # its coordinator is not there yet
        return None


def known_topic(admin: AdminClient, topic: str) -> Any:
    try:
        return admin.describe_topics(TopicCollection([topic]))[topic].result()
    except KafkaException:  # not yet
        return None
