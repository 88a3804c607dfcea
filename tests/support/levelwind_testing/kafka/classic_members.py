"""Members of a classic group in tests: unmodified kafka-python, aiokafka and Java consumers.

Each member runs in a thread of its own and polls until it is stopped. `held` is what it has, and
`member_id` what the broker calls it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from threading import Event, Thread


class ClassicMember(Thread):
    """A consumer in a thread."""

    def __init__(self, bootstrap, group, topics, **config):
        super().__init__(daemon=True)
        self.bootstrap, self.group, self.topics, self.config = bootstrap, group, topics, config
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

    def stop(self):
        self.stopping.set()
        self.join(30)
        assert not self.is_alive()


STALLED_SECONDS = 20.0


class KafkaPythonMember(ClassicMember):
    """kafka-python's `KafkaConsumer`.

    kafka-python 3.0.12 now and then loses a rebalance on a busy machine: its member sends neither
    heartbeats nor a join any more, whatever the assignor. Then the consumer is made anew.
    """

    def consume(self):
        while not self.stopping.is_set():
            self.consume_until_stalled(list(self.config["assignors"]))

    def consume_until_stalled(self, assignors):
        from kafka import KafkaConsumer  # noqa: PLC0415 - an extra
        from kafka.coordinator.base import MemberState  # noqa: PLC0415 - an extra

        consumer = KafkaConsumer(
            *self.topics,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            partition_assignment_strategy=assignors,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=1000,
            **{name: value for name, value in self.config.items() if name != "assignors"},
        )
        for assignor in assignors:
            assignor._consumer = None  # the former consumer is closed
            assignor.attach(consumer)
        stable_at = time.monotonic()
        try:
            while not self.stopping.is_set() and time.monotonic() - stable_at < STALLED_SECONDS:
                consumer.poll(timeout_ms=100)
                if consumer._coordinator.state is MemberState.STABLE:
                    stable_at = time.monotonic()
                joined = consumer._coordinator._generation
                self.see(consumer.assignment(), joined.member_id, joined.generation_id)
        finally:
            consumer.close()


class AiokafkaMember(ClassicMember):
    """aiokafka's `AIOKafkaConsumer`."""

    def consume(self):
        asyncio.run(self.poll())

    async def poll(self):
        from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - an extra

        assignors = self.config.pop("assignors")
        consumer = AIOKafkaConsumer(
            *self.topics,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            partition_assignment_strategy=assignors,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=1000,
            **self.config,
        )
        for assignor in assignors:
            assignor.attach(consumer)
        await consumer.start()
        try:
            while not self.stopping.is_set():
                await consumer.getmany(timeout_ms=100)
                joined = consumer._coordinator
                self.see(consumer.assignment(), joined.member_id, joined.generation)
        finally:
            await consumer.stop()


class JavaMember(ClassicMember):
    """Kafka's own `KafkaConsumer`, from the brokers' jars, in the Java process of a `Kafka`."""

    def consume(self):
        kafka = self.config.pop("kafka")
        jvm = kafka.gateway.jvm
        properties = jvm.java.util.Properties()
        text = "org.apache.kafka.common.serialization.StringDeserializer"
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "group.protocol": "classic",
            "key.deserializer": text,
            "value.deserializer": text,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "500",
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
