"""The whole loop of real parts around running brokers: the daemon, its topics, and clients."""

import json
from collections import Counter

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind_testing.kafka.each_broker import create_topics
from levelwind_testing.kafka.log_offsets import log_offsets
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.followers import Follower, overlaps
from levelwind_testing.processes.published_member import PublishedProcess, PublishedSettings
from levelwind_testing.waiting import wait_until

QUICK_JVM = "pipeline.spark.spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
"""A pipeline of minutes gains nothing from code that its JVM compiles well."""


class Loop:
    """The cluster, the running daemon, and the clients that a test needs."""

    def __init__(self, bootstrap, state, prefix, timers, settings, observed=None):
        self.bootstrap, self.state, self.prefix = bootstrap, state, prefix
        self.timers, self.settings, self.observed = timers, settings, observed
        client = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(client)
        self.client_config = client
        # The one client id that the brokers let write into their internal topics.
        self.producer = Producer({**client, "client.id": "__admin_client"})
        self.journal = []
        self.start()

    def start(self):
        self.daemon = DaemonProcess(
            self.bootstrap, self.state, QUICK_JVM, *self.settings, observed=self.observed
        )

    def create(self, topic, replicas):
        new = NewTopic(topic, num_partitions=len(replicas), replica_assignment=replicas)
        create_topics(self.client_config, new)

    def produce(self, topic, partition, count):
        for _ in range(count):
            self.send(topic, partition, b"x" * 50)
        assert self.producer.flush(30) == 0

    def send(self, topic, partition, value, key=None):
        def acknowledged(error, _):
            assert error is None, error

        self.producer.produce(topic, value, key, partition=partition, on_delivery=acknowledged)
        self.producer.poll(0)

    def subscribe(self, group, topic, clients, rate=1e9):
        """Members of a published group: a client for each rack in order."""
        return [
            PublishedProcess(
                PublishedSettings(
                    client=client,
                    bootstrap=self.bootstrap,
                    prefix=self.prefix,
                    group=group,
                    topic=topic,
                    instance=f"{group}-{rack}",
                    rack=rack,
                    rate=rate,
                )
            )
            for rack, client in zip("abc", clients, strict=True)
        ]

    def follow(self, group, topic, racks, rate=1e9):
        return [
            Follower(
                self.bootstrap,
                self.prefix,
                group,
                topic,
                instance=f"{group}-{rack}",
                rack=rack,
                timers=self.timers,
                journal=self.journal,
                rate=rate,
            )
            for rack in racks
        ]

    def ends(self, topic, partitions):
        return log_offsets(self.admin, topic, range(partitions))

    def committed(self, group, topic, partitions):
        asked = ConsumerGroupTopicPartitions(
            group, [TopicPartition(topic, n) for n in range(partitions)]
        )
        answer = self.admin.list_consumer_group_offsets([asked])[group].result(30)
        return {p.partition: max(p.offset, 0) for p in answer.topic_partitions}  # below 0: none

    def read(self, topic, done):
        """Read one of levelwind's topics until `done` is true of its records, value by key."""
        records = {}

        def is_done(found):
            records.update(found)
            return done(records)

        self._read(topic, OFFSET_BEGINNING, is_done, shown=lambda: [*records][-20:])
        return records

    def hear(self, followers, times):
        """Wait until each follower has announced itself so many times more."""
        heard = Counter()

        def all_are_heard(found):
            for key, value in found:
                kind, *names = json.loads(key)
                if kind == "m" and value:
                    _, instance, _ = names
                    heard[instance] += 1
            return all(heard[follower.instance] >= times for follower in followers)

        self._read("members", OFFSET_END, all_are_heard, shown=lambda: heard)

    def _read(self, topic, start, take, shown):
        """Read from an offset until `take` is true; it gets keys and values as they come."""
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "group.id": "nobody",
                "isolation.level": "read_committed",
            }
        )

        def taken():
            return take(
                [
                    (message.key(), json.loads(message.value() or b"null"))
                    for message in reader.consume(500, 0.2)
                    if message.error() is None
                ]
            )

        name = self.prefix + topic
        try:
            partitions = self.admin.list_topics(name, timeout=30).topics[name].partitions
            reader.assign([TopicPartition(name, number, start) for number in partitions])
            wait_until(f"such records in {topic}", taken, pause=0, shown=shown)
        finally:
            reader.close()

    def all_is_done(self, group, topic, followers):
        """Wait until all is committed; each record was processed, none by two at once."""
        for follower in followers:
            follower.speed_up()
        self.all_is_processed(group, topic, followers)
        assert overlaps([entry for entry in self.journal if entry.group == group]) == []

    def all_is_processed(self, group, topic, members):
        """Wait until all is committed; each record was processed by some member."""
        partitions = len(self.ends(topic, 6))
        self.daemon.wait_for(
            "everything to be committed",
            lambda: self.committed(group, topic, partitions) == self.ends(topic, partitions),
        )
        ends = self.ends(topic, partitions)
        # What a member in a process of its own says of it by its output is read later.
        wait_until(
            "all records to be processed",
            lambda: all(
                set().union(*(m.processed.get(number, ()) for m in members)) == set(range(end))
                for number, end in ends.items()
            ),
        )
