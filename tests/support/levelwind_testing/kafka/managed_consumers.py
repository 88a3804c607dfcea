"""Managed consumers in tests: records to read, what a group has committed, and applications."""

from __future__ import annotations

from dataclasses import replace
from threading import Event, Thread

from confluent_kafka import Consumer, Producer, TopicPartition

from levelwind.assignors.handover.timers import Timers
from levelwind_testing.waiting import wait_until

ENDURING = replace(Timers().scaled(0.25), hold=8, guard=2, commit=8, grant=16.6, dead_after=8)
"""Short timers of members whose commits are transactions: one may take four seconds, and neither
its life nor its lease ends with a stall of three. A grant after a fence takes 8.6 seconds."""
PATIENT_MEMBER = replace(Timers(), heartbeat=0.6)
"""Short where a test waits for what members announce, and as by default where brokers are waited
for: five seconds for an answer. A member whose question to a group's coordinator has no answer in
time may end the process (librdkafka's issue 4605)."""


def produce(cluster, topic, records):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for partition, value in records:
        producer.produce(topic, partition=partition, value=str(value))
    assert producer.flush(30) == 0


def initialise(bootstrap, transactional_id):
    """Fence all producers of a transactional id, as the planner does."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)


def commits_of(cluster, group, topic, partitions=6):
    """What the group has committed, by a connection of its own: offsets with their metadata."""
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        every = [TopicPartition(topic, p) for p in range(partitions)]
        return [each for each in reader.committed(every, timeout=10) if each.offset >= 0]
    finally:
        reader.close()


def committed(cluster, group, topic, partitions=6):
    return {each.partition: each.offset for each in commits_of(cluster, group, topic, partitions)}


def poll_until(consumer, condition, errors=()):
    """Poll, and collect what comes, until the condition holds.

    Messages that carry an error of the codes `errors` are passed over, every other one fails.
    """
    values = []

    def holds():
        if condition(values):
            return True
        if (message := consumer.poll(0.1)) is not None:
            if message.error() is None:
                values.append(message.value().decode())
            else:
                assert message.error().code() in errors, message.error()
        return False

    wait_until(
        f"condition for {consumer.instance}",
        holds,
        pause=0,
        shown=lambda: f"{consumer.phase}: {values[-5:]}",
    )
    return values


class PollingApplication(Thread):
    """An application that polls and notes what it got, until `stop`."""

    def __init__(self, consumer):
        super().__init__(daemon=True)
        self.consumer = consumer
        self.seen = []
        self.stopping = Event()
        self.failure = None
        self.start()

    def run(self):
        try:
            with self.consumer as consumer:
                while not self.stopping.is_set():
                    message = consumer.poll(0.2)
                    if message is not None:
                        assert message.error() is None, message.error()
                        self.seen.append((message.partition(), message.value().decode()))
        except BaseException as error:
            self.failure = error
            raise

    def stop(self):
        self.stopping.set()
        self.join(40)
        assert not self.is_alive()
        assert self.failure is None


def spread(topic, partitions=6):
    return lambda live: {
        i: {(topic, p) for p in range(partitions)[at :: len(live)]} for at, i in enumerate(live)
    }
