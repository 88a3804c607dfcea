"""Members of a group in tests: unmodified kafka-python, aiokafka, confluent and Java consumers.

Each member runs in a thread of its own and polls until it is stopped. `held` is what it has, and
`member_id` what the broker calls it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import wraps
from threading import Event, Thread

PROMPT = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 500,
    "metadata_max_age_ms": 1000,
}
"""Settings of kafka-python and aiokafka with which little has to be waited for."""


class ClassicMember(Thread):
    """A consumer in a thread."""

    def __init__(self, bootstrap, group, topics, **config):
        super().__init__(daemon=True)
        self.bootstrap, self.group, self.topics, self.config = bootstrap, group, topics, config
        self.made_with = dict(config)
        self.held = frozenset()
        self.member_id = ""
        self.generation = -1
        self.failure = None
        self.changes = []
        """Each assignment that the member had, in order."""
        self.stopping = Event()
        self.killed = False

    def run(self):
        try:
            self.consume()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.failure = error

    def see(self, partitions, member_id, generation):
        held = frozenset((each[0], each[1]) for each in partitions)
        if held != self.held or generation != self.generation:
            self.changes.append((generation, held))
        self.held, self.member_id, self.generation = held, member_id, generation

    def handle(self, partition, offsets):
        """Process records of a partition; a subclass may take its time."""

    def refused(self, error):
        """Take notice of a commit that the brokers refused; the records will be read again."""

    @property
    def commits(self):
        """Whether the member itself commits what it has handled."""
        return not self.config.get("enable_auto_commit", True)

    def stop(self):
        self.stopping.set()
        self.join(30)
        assert not self.is_alive()


POLL_MS = 100
STALLED_POLLS = 200
"""Polls in a row without a record or a place in the group, after which a member has stalled."""
ATTEMPTS = 3


class KafkaPythonMember(ClassicMember):
    """kafka-python's `KafkaConsumer`.

    kafka-python 3.0.12 now and then loses a rebalance on a busy machine: its member sends neither
    heartbeats nor a join any more, whatever the assignor. Then the consumer is made anew.
    """

    stalls = 0
    """Number of consumers of all members that were made anew."""

    def consume(self):
        while not self.stopping.is_set():
            self.consume_until_stalled(list(self.config["assignors"]))
            KafkaPythonMember.stalls += not self.stopping.is_set()

    def consume_until_stalled(self, assignors):
        from kafka import KafkaConsumer  # noqa: PLC0415 - an extra
        from kafka.coordinator.base import MemberState  # noqa: PLC0415 - an extra
        from kafka.errors import KafkaError  # noqa: PLC0415 - an extra

        consumer = KafkaConsumer(
            *self.topics,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            partition_assignment_strategy=assignors,
            **PROMPT | {name: value for name, value in self.config.items() if name != "assignors"},
        )
        for assignor in assignors:
            if not isinstance(assignor, type):  # kafka-python's own are classes
                assignor._consumer = None  # the former consumer is closed
                assignor.attach(consumer)
        in_vain = 0
        try:
            while not self.stopping.is_set() and in_vain < STALLED_POLLS:
                batch = consumer.poll(timeout_ms=POLL_MS)
                joined, held = consumer._coordinator._generation, consumer.assignment()
                # While it joins, the generation is the new one and the assignment still the old.
                if consumer._coordinator.state is MemberState.STABLE:
                    in_vain = 0
                    self.see(held, joined.member_id, joined.generation_id)
                elif not batch:
                    in_vain += 1
                for partition, records in batch.items():
                    self.handle(partition.partition, [record.offset for record in records])
                if batch and self.commits:
                    try:
                        consumer.commit()
                    except KafkaError as error:
                        self.refused(error)
        finally:
            consumer.close()


def again_where_a_member_stalled(test):
    """Let a test begin again that failed because of a member of kafka-python that was made anew.

    Such a member leaves the group and joins it, so that another one leads and partitions move. The
    test makes its group itself; one that fails without a stall fails at once.
    """

    @wraps(test)
    def attempts(*arguments, **fixtures):
        for left in reversed(range(ATTEMPTS)):
            stalls = KafkaPythonMember.stalls
            try:
                return test(*arguments, **fixtures)
            except AssertionError:
                if KafkaPythonMember.stalls == stalls or not left:
                    raise
        return None

    return attempts


class AiokafkaMember(ClassicMember):
    """aiokafka's `AIOKafkaConsumer`."""

    def consume(self):
        asyncio.run(self.poll())

    async def poll(self):
        from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - an extra
        from aiokafka.errors import KafkaError  # noqa: PLC0415 - an extra

        assignors = self.config.pop("assignors")
        consumer = AIOKafkaConsumer(
            *self.topics,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            partition_assignment_strategy=assignors,
            **PROMPT | self.config,
        )
        for assignor in assignors:
            assignor.attach(consumer)
        await consumer.start()
        try:
            while not self.stopping.is_set():
                batch = await consumer.getmany(timeout_ms=100)
                joined = consumer._coordinator
                # While it joins, the generation is the new one and the assignment still the old.
                if joined.generation > 0 and not consumer._subscription.reassignment_in_progress:
                    self.see(consumer.assignment(), joined.member_id, joined.generation)
                for partition, records in batch.items():
                    offsets = [record.offset for record in records]
                    await asyncio.to_thread(self.handle, partition.partition, offsets)
                if batch and self.commits:
                    try:
                        await consumer.commit()
                    except KafkaError as error:
                        self.refused(error)
        finally:
            await consumer.stop()


PROMPT_CLASSIC = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "500"}
"""Settings of librdkafka and Java that the classic protocol alone has."""


class ConfluentMember(ClassicMember):
    """confluent-kafka's `Consumer`; `on_record` is called with each record."""

    def consume(self):
        from confluent_kafka import Consumer  # noqa: PLC0415 - as the other clients

        on_record = self.config.pop("on_record", None)
        settings = {} if self.config.get("group.protocol") == "consumer" else PROMPT_CLASSIC
        consumer = Consumer(
            {
                **settings,
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
                **self.config,
            }
        )
        cooperative = (
            self.config.get("group.protocol") == "consumer"
            or self.config.get("partition.assignment.strategy") == "cooperative-sticky"
        )
        held = set()

        def assigned(_, partitions):
            gained = {(each.topic, each.partition) for each in partitions}
            self.show(consumer, held, held | gained if cooperative else gained)

        def revoked(_, partitions):
            lost = {(each.topic, each.partition) for each in partitions}
            self.show(consumer, held, held - lost if cooperative else set())

        consumer.subscribe(self.topics, on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        try:
            while not self.stopping.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None and on_record is not None:
                    on_record(self, message)
        finally:
            if not self.killed:
                consumer.close()

    def show(self, consumer, held, now):
        held.clear()
        held.update(now)
        self.see(now, consumer.memberid() or "", self.generation)


class JavaMember(ClassicMember):
    """Kafka's own `KafkaConsumer`, from the brokers' jars, in the Java process of a `Kafka`."""

    def consume(self):
        kafka = self.config.pop("kafka")
        jvm = kafka.gateway.jvm
        properties = jvm.java.util.Properties()
        text = "org.apache.kafka.common.serialization.StringDeserializer"
        protocol = self.config.setdefault("group.protocol", "classic")
        settings = {
            **({} if protocol == "consumer" else PROMPT_CLASSIC),
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "key.deserializer": text,
            "value.deserializer": text,
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": "1000",
            **self.config,
        }
        for name, value in settings.items():
            properties.setProperty(name, value)
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        topics = jvm.java.util.ArrayList()
        for topic in self.topics:
            topics.add(topic)
        consumer.subscribe(topics)
        try:
            while not self.stopping.is_set():
                consumer.poll(jvm.java.time.Duration.ofMillis(100))
                joined = consumer.groupMetadata()
                held = [(each.topic(), each.partition()) for each in consumer.assignment()]
                self.see(held, joined.memberId(), joined.generationId())
        finally:
            with suppress(Exception):
                consumer.close()
