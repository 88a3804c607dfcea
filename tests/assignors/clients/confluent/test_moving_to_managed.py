"""A group moves from `subscribe` to managed consumers and back, as docs/clients.md says."""

from __future__ import annotations

from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Producer

from levelwind_testing.kafka.managed_consumers import PATIENT_MEMBER, PollingApplication, spread
from levelwind_testing.waiting import GENEROUS_SECONDS, wait_until

pytestmark = pytest.mark.integration

MEMBERS = 3


@pytest.fixture
def timers():
    return PATIENT_MEMBER


class Subscriber(Thread):
    """A consumer that subscribes, and commits what it has read when it is closed."""

    def __init__(self, cluster, group, topic):
        super().__init__(daemon=True)
        self.seen = []
        self.stopping = Event()
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )
        self.consumer.subscribe([topic])
        self.start()

    def run(self):
        while not self.stopping.is_set():
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.seen.append((message.partition(), message.value().decode()))
        self.consumer.close()

    def stop(self):
        self.stopping.set()
        self.join(60)
        assert not self.is_alive()


class Traffic(Thread):
    """Numbered records to all partitions, without a pause, until `stop`."""

    def __init__(self, cluster, topic):
        super().__init__(daemon=True)
        # A broker that is slow to answer must not make a record twice.
        self.producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        self.topic = topic
        self.sent = 0
        self.stopping = Event()
        self.start()

    def run(self):
        while not self.stopping.wait(0.02):
            self.producer.produce(self.topic, partition=self.sent % 6, value=str(self.sent))
            self.sent += 1
            self.producer.poll(0)

    def stop(self):
        self.stopping.set()
        self.join(10)
        assert self.producer.flush(GENEROUS_SECONDS) == 0


def all_seen(crew):
    return [value for member in crew for _, value in member.seen]


def stand(crew):
    """How many records each member of a crew has seen."""
    return [len(member.seen) for member in crew]


def gone_on(crew, before, more):
    return all(now >= then + more for now, then in zip(stand(crew), before, strict=True))


def test_nothing_is_lost_and_nothing_read_twice_on_the_way_there_and_back(
    cluster, topic, plan, make_consumer, caplog
):
    planner = plan(spread(topic))
    traffic = Traffic(cluster, topic)
    old = [Subscriber(cluster, planner.group, topic) for _ in range(MEMBERS)]
    wait_until("20 records of each subscriber", lambda: gone_on(old, [0] * MEMBERS, 20))
    managed = [
        PollingApplication(make_consumer(planner, f"i{n}", after_subscribers=True))
        for n in range(MEMBERS)
    ]
    wait_until("members that wait", lambda: "member.waiting_for_subscribers" in caplog.text)
    for member in old:  # one after the other: those that remain read on
        member.stop()
    wait_until("20 records of each member", lambda: gone_on(managed, [0] * MEMBERS, 20))
    for member in managed:
        member.stop()
    again = Subscriber(cluster, planner.group, topic)
    wait_until("100 records of a subscriber", lambda: stand([again])[0] > 100)
    traffic.stop()
    everything = {str(number) for number in range(traffic.sent)}
    crew = [*old, *managed, again]
    wait_until("last record", lambda: everything <= set(all_seen(crew)))
    again.stop()
    readers = {value: [] for value in everything}
    for index, member in enumerate(crew):
        for _, value in member.seen:
            readers[value].append(index)
    assert {value: by for value, by in readers.items() if len(by) > 1} == {}
    assert "member.commit_refused" not in caplog.text
