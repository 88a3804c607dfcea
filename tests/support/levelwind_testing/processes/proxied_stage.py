"""A proxied group of unmodified consumers in processes, and daemons that lead it.

The daemons have no pipeline: the stage writes the lag records that it would, with the owners that
the members report. Everything that is written must be read, and no partition be two members' at
once.
"""

import json
import time
from contextlib import suppress
from itertools import cycle, pairwise
from threading import Event, Thread

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from levelwind.assignors.protocol.records import (
    GroupRecord,
    LagRecord,
    OperatorRecord,
    PlanShard,
    TopicRecord,
    encode,
)
from levelwind.assignors.protocol.records.shards import planned_assignments
from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, Topics, partition_for
from levelwind.daemon.kafka.topic_reader import read_to_end
from levelwind_testing.kafka.kafka_wire import offsets_partition
from levelwind_testing.kafka.log_offsets import log_offsets
from levelwind_testing.processes.command_line import printed_by
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.subscriber_process import SubscriberProcess, shared
from levelwind_testing.records import lag_of_owners
from levelwind_testing.waiting import wait_until

PARTITIONS = 6
SESSION_MS = 6000
REPORTS_A_REQUEST = 2
"""Lag records before a request for a plan: a request before the lag is known has one without it."""
STANDINGS = frozenset(
    {
        "proxy.leading",
        "proxy.waiting_for_lead",
        "proxy.left",
        "proxy.refused",
        "daemon.deposed",
    }
)
"""Events that say how a proxy stands to its group; a deposed daemon has no proxies."""
READ_ON = 10
"""More records than may still be on their way from a member when the wait for more begins."""
BUSY = 10_000
"""Records behind of a partition with a backlog."""


class ProxiedStage:
    """A topic that is written to, members that read it, daemons, and the lag."""

    def __init__(self, client, kafka, fresh, directory, *, replication=1, settings=()):
        """Make the topic.

        Args:
            client: settings of librdkafka, for members and daemons as well.
            kafka: makes topics.
            fresh: makes names.
            directory: directory of the daemons.
            replication: replicas of the topic.
            settings: further settings of the daemons, as for `--set`.
        """
        self.client = {**client, "log_level": 0}
        self.bootstrap, self.directory = client["bootstrap.servers"], directory
        secured = (
            f"kafka.{name}={value}" for name, value in client.items() if name != "bootstrap.servers"
        )
        self.settings = (*secured, *settings)
        self.topics = Topics(fresh("proxied") + ".")
        self.topic, self.group = fresh("orders"), fresh("group")
        kafka.create(self.topic, PARTITIONS, replication)
        self.admin = AdminClient(self.client)
        # A broker that dies must not make a record twice.
        self.producer = Producer({**self.client, "linger.ms": 20, "enable.idempotence": True})
        self.members, self.gone, self.daemons, self.topic_id = {}, [], [], None
        self.behind = (0,) * PARTITIONS
        self.journal = []
        self.stopping, self.reports = Event(), True
        self.reported = 0
        """Lag records that were written: two a second while the group is settled."""
        self.threads = [Thread(target=work, daemon=True) for work in (self.write, self.report)]
        for thread in self.threads:
            thread.start()

    # What goes on all the time.

    def write(self):
        while not self.stopping.wait(0.1):
            for partition in range(PARTITIONS):
                self.producer.produce(self.topic, b"x", partition=partition)
            self.producer.poll(0)

    def report(self):
        """Write the lag records of a pipeline."""
        while not self.stopping.wait(0.5):
            if self.reports and self.topic_id is not None and self.settled():
                with suppress(KafkaException):  # while a broker is away
                    self.send(self.lag_record(), "lag")
                    self.reported += 1

    # The group.

    def join(self, name, **config):
        classic = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}
        settings = {
            **self.client,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            # Of a KIP-848 group the brokers decide these.
            **(classic if config.get("group.protocol") != "consumer" else {}),
            **config,
        }
        self.members[name] = SubscriberProcess(settings, self.topic, self.journal)

    def leave(self, name):
        self.gone.append(self.members.pop(name))
        self.gone[-1].stop()

    def kill(self, name):
        self.gone.append(self.members.pop(name))
        self.gone[-1].kill()

    def settled(self):
        members = list(self.members.values())
        held = sorted(number for member in members for number in member.held)
        return held == list(range(PARTITIONS)) and all(member.held for member in members)

    def held(self):
        members = list(self.members.values())  # others join and leave in the test's thread
        return {member.member_id: member.held for member in members}

    def coordinating_partition(self):
        """The partition of the brokers' offsets topic whose leader coordinates the group."""
        listed = self.admin.list_topics(OFFSETS_TOPIC, timeout=10).topics[OFFSETS_TOPIC]
        return listed.partitions[offsets_partition(self.group, len(listed.partitions))]

    def coordinator(self):
        """The broker that coordinates the group; None while there is none.

        An admin request to a coordinator that has died ends the process (librdkafka's issue 4605).
        """
        with suppress(KafkaException):
            if (leader := self.coordinating_partition().leader) >= 0:
                return leader
        return None

    # Lag and plans.

    def lag_record(self) -> LagRecord:
        named = {"group": self.group, "topic": self.topic, "topic_id": self.topic_id}
        return lag_of_owners(self.held(), *self.behind, **named)

    def send(self, record, kind):
        key, value = encode(record)
        name = self.topics.name(kind)
        count = len(self.admin.list_topics(name, timeout=10).topics[name].partitions)
        self.producer.produce(name, value, key, partition_for(self.group, count))

    def records(self, kind):
        found = read_to_end(self.client, self.topics, [kind], timeout=30.0)
        return [entry.record for entry in found if hasattr(entry, "record")]

    def read_topic_id(self):
        layouts = [r for r in self.records("metadata") if isinstance(r, TopicRecord)]
        return next((record.id for record in layouts if record.topic == self.topic), None)

    def plan(self):
        """The newest plan: partitions by member."""
        heads, shards = {}, {}
        for record in self.records("assignments"):
            if isinstance(record, GroupRecord) and record.group == self.group:
                heads[record.group_epoch] = record
            elif isinstance(record, PlanShard) and record.group == self.group:
                shards[record.shard] = record
        planned = heads and planned_assignments(heads[max(heads)], shards)
        return {
            member: frozenset(share.get(self.topic, ()))
            for member, share in (planned or {}).items()
        }

    def follows(self):
        """Whether the newest plan names all members, and each has what it says."""
        return self.settled() and self.plan() == self.held()

    def level(self):
        """Give all of the backlog to one member: a plan shares it out, and the group follows.

        A proxy that was silent for a session timeout, as on a busy machine, has lost the lead for
        good: then the members restart until it has it again.
        """
        while not self.is_leveled():
            self.lead()

    def is_leveled(self):
        """Whether the group follows a plan that shares the backlog; not if the lead was lost."""
        held = self.wait(lambda: self.settled() and self.held(), "group")
        busy = max(held.values(), key=len)
        self.behind = tuple(BUSY if number in busy else 0 for number in range(PARTITIONS))
        next_request = self.reported + REPORTS_A_REQUEST

        def is_shared():
            nonlocal next_request
            if self.reported >= next_request:
                next_request = self.reported + REPORTS_A_REQUEST
                self.ask_for_a_plan()
            return self.settled() and not any(busy <= held for held in self.held().values())

        self.wait(lambda: is_shared() or not self.leads(), "shared backlog")
        self.wait(lambda: self.follows() or not self.leads(), "plan that is followed")
        return self.leads()

    def ask_for_a_plan(self):
        at = round(time.time() * 1000)
        request = OperatorRecord(
            group=self.group, at=at, by="test", action="rebalance", reason="test"
        )
        with suppress(KafkaException):  # while a broker is away
            self.send(request, "control")

    # The daemons.

    @property
    def daemon(self):
        """The daemon that was started last."""
        return self.daemons[-1]

    def start_daemon(self):
        number = len(self.daemons)
        self.daemons.append(
            DaemonProcess(
                self.bootstrap,
                self.directory / f"daemon-{number}",
                f"prefix={self.topics.prefix}",
                "pipeline.run=elsewhere",
                "control.cooldown.duration=1",
                f"proxy.session_timeout={SESSION_MS / 1000}",
                "proxy.heartbeat_interval=0.5",
                "proxy.retry=0.5",
                f"groups.{self.group}.mode=proxy",
                *self.settings,
            )
        )

    def start_stand_by(self):
        """Start a daemon beside the one that leads."""
        self.start_daemon()
        self.wait(lambda: self.daemon.logged("daemon.standing_by"), "standby")

    def see_layout(self):
        """Wait until the leading daemon has published the topic's layout, so that lag counts."""
        self.wait(lambda: self.daemon.logged("daemon.leading"), "planner")
        self.topic_id = self.wait(self.read_topic_id, "layout")

    def lead(self):
        """Make the newest daemon's proxy the leader: the members restart one after the other."""
        self.wait(lambda: self.daemon.logged("proxy.waiting_for_lead") or self.leads(), "proxy")
        for name in cycle(list(self.members)):
            self.wait(self.settled, "settled group")
            if self.leads():
                return
            self.leave(name)
            self.join(name)

    def lead_two(self):
        """Let a daemon lead a group of the members a and b, which was one before it came."""
        self.join("a")
        self.join("b")
        self.wait(self.settled, "group of its own")
        self.start_daemon()
        self.see_layout()
        self.lead()

    def leads(self):
        """Whether the newest daemon's proxy leads, as it logged last."""
        return self.standings()[-1:] == ["proxy.leading"]

    def standings(self):
        events = list(self.daemon.events)
        return [event["event"] for event in events if event["event"] in STANDINGS]

    def kept_the_lead_while_it_was_a_member(self):
        """Whether the proxy lost the lead only where it was no member any more.

        The brokers had dropped it, or its daemon was deposed: where the broker that dies leads
        what the daemon reads, and the next leader is slow.
        """
        standings = self.standings()
        return ("proxy.leading", "proxy.waiting_for_lead") not in pairwise(standings)

    def describe(self):
        shown = printed_by(
            *("describe", self.group, "--format", "json"),
            bootstrap=self.bootstrap,
            settings=[f"prefix={self.topics.prefix}", *self.settings],
        )
        return json.loads(shown)

    # The end.

    def wait(self, condition, what):
        return wait_until(
            what, condition, pause=0.1, shown=lambda: f"{self.held()}\n{self.tails()}"
        )

    def tails(self):
        return "\n\n".join(daemon.tail() for daemon in self.daemons)

    def read(self, partition):
        """Offsets of a partition that members have read."""
        everybody = [*self.gone, *self.members.values()]
        return set().union(*(member.processed[partition] for member in everybody))

    def read_on(self):
        """Wait until members have read what was written meanwhile, of every partition."""
        before = [len(self.read(partition)) for partition in range(PARTITIONS)]
        self.wait(
            lambda: all(len(self.read(n)) > before[n] + READ_ON for n in range(PARTITIONS)),
            "further records of each partition",
        )

    def nothing_was_lost_or_shared(self):
        """Wait until all that was written is read; no partition was ever two members'."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(10)
        assert self.producer.flush(60) == 0
        ends = log_offsets(self.admin, self.topic, range(PARTITIONS))
        self.wait(lambda: all(self.read(n) == set(range(end)) for n, end in ends.items()), "end")
        both = shared(self.journal)
        assert not both, f"{both}\n{sorted(self.journal)}"

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(10)
        for name in list(self.members):
            self.leave(name)
        for daemon in self.daemons:
            daemon.kill()
