"""The leader proxy: seconds until a plan has reached a group, and its cost at rest.

    python tests/benchmarks/bench_proxy.py [--members 50] [--plans 40] [--heartbeat 500]
                                           [--protocol range] [--groups 50] [--rounds 1]
                                           [--minutes 1]

Three real brokers and unmodified confluent-kafka consumers. First one group of so many members,
which the proxy leads: each plan moves partitions of every member, and it has reached the group when
the last member got its new assignment. Then many groups of one member each, which the proxy leads
or waits to lead, and nothing happens: printed is the CPU that the proxy's thread takes.

With `--protocol consumer` the groups are of KIP-848 and the brokers have levelwind's jar; the
members of the many groups are then bare heartbeats, in another thread.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind.assignors.clients.classic.published_plan import PlanEpoch, PublishedPlan
from levelwind.assignors.protocol.records import TopicRecord
from levelwind.daemon.proxy.carrying import MOST_BRISK_SECONDS
from levelwind.daemon.proxy.leader_proxy import LANES, LeaderProxy
from levelwind.daemon.proxy.settings import ProxySettings
from levelwind.daemon.wire.broker_addresses import addresses
from levelwind.daemon.wire.broker_connection import ConnectionFailedError
from levelwind.daemon.wire.client_security import ClientSecurity
from levelwind.daemon.wire.consumer_heartbeat import JOINING, ConsumerHeartbeatRequest
from levelwind.daemon.wire.group_requests import ELSEWHERE, NO_ERROR, UNKNOWN_MEMBER_ID
from levelwind.daemon.wire.shared_connections import SharedConnections
from levelwind.deploy.coordinator import assignor_jar
from levelwind_testing.quantiles import quantiles

WAIT_SECONDS = 300.0
CONSUMER = "consumer"
"""The protocol of KIP-848."""
DEFAULT_HEARTBEAT_MS = 3000
REST_PARTITIONS = 2
"""Partitions of the topic of the groups at rest: enough for the two members of a change."""
PER_MEMBER = 4
"""Partitions of each member of the large group."""


class QuietLog:
    """Prints warnings and errors."""

    def __getattr__(self, level):
        def write(event, **fields):
            if level in {"warning", "error"}:
                print(level, event, fields, flush=True)

        return write


class Follower(threading.Thread):
    """An unmodified consumer: its member id, what it has, and when it last got something."""

    def __init__(self, bootstrap, group, topic, heartbeat, protocol):
        super().__init__(daemon=True)
        classic = {
            "heartbeat.interval.ms": heartbeat,
            "session.timeout.ms": 30_000,
            "partition.assignment.strategy": protocol,
        }
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **({"group.protocol": CONSUMER} if protocol == CONSUMER else classic),
            }
        )
        self.cooperative = protocol in {"cooperative-sticky", CONSUMER}
        self.id, self.held, self.got, self.stopping = "", frozenset(), 0.0, False
        self.consumer.subscribe([topic], on_assign=self.assigned, on_revoke=self.revoked)
        self.start()

    def assigned(self, _, partitions):
        gained = {each.partition for each in partitions}
        self.held = self.held | gained if self.cooperative else frozenset(gained)
        self.id = self.consumer.memberid()
        self.got = time.monotonic()

    def revoked(self, _, partitions):
        lost = {each.partition for each in partitions}
        self.held = self.held - lost if self.cooperative else frozenset()

    def run(self):
        while not self.stopping:
            self.consumer.poll(0.5)
        self.consumer.close()

    def stop(self):
        self.stopping = True
        self.join()


class Bench:
    """A cluster, topics, and a proxy."""

    def __init__(self, bootstrap, options):
        self.bootstrap, self.options = bootstrap, options
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.layouts, self.standings, self.epochs = {}, {}, {}

    def topic(self, name, partitions):
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        one = (1,) * partitions
        self.layouts[name] = TopicRecord(
            topic=name,
            at=1,
            id=self.topic_id(name),
            leader=one,
            replicas=((1,),) * partitions,
            isr=((1,),) * partitions,
            racks=(("a",),) * partitions,
        )

    def topic_id(self, name):
        """Kafka's id of a topic, of which brokers hear one after another."""
        found = []

        def described():
            asked = self.admin.describe_topics(TopicCollection([name]))
            with suppress(KafkaException):
                found.append(str(asked[name].result(30).topic_id))
            return found

        wait(described, "topic")
        return found[0].translate(str.maketrans("+/", "-_"))

    def proxy(self, groups):
        made = LeaderProxy(
            groups,
            {"bootstrap.servers": self.bootstrap},
            "bench",
            ProxySettings(),
            lambda: self.layouts,
            lambda group, standing, _: self.standings.update({group: standing.value}),
            lambda *_: None,
            QuietLog(),
        )
        made.start()
        return made

    def apply(self, proxy, group, topic, shares):
        self.epochs[group] = self.epochs.get(group, 0) + 1
        assignments = {
            member: ({topic: tuple(numbers)} if numbers else {})
            for member, numbers in shares.items()
        }
        plan = PublishedPlan(epoch=PlanEpoch(1, self.epochs[group]), assignments=assignments)
        proxy.apply(group, plan)

    def follower(self, group, topic, heartbeat=500):
        return Follower(self.bootstrap, group, topic, heartbeat, self.options.protocol)

    def lead(self, proxy, group, topic):
        """Make the proxy the leader of a new group; return the one member that is left."""
        member = self.follower(group, topic)
        wait(lambda: member.held, "first member")
        self.apply(proxy, group, topic, {})
        if self.options.protocol == CONSUMER:
            wait(lambda: self.standings.get(group) == "leading", "lead")
            return member
        wait(lambda: self.standings.get(group) == "waiting for the lead", "membership")
        while self.standings.get(group) != "leading":
            member = self.relieve(member, group, topic)
        return member

    def relieve(self, member, group, topic):
        """Let another member follow on one."""
        following = self.follower(group, topic)
        wait(lambda: following.held, "second member's partitions")
        member.stop()
        wait(lambda: following.held, "second member's partitions")
        time.sleep(0.2)
        return following

    def reach(self, proxy, group, members, number):
        """Publish a plan; return the seconds until the last member has what it says."""
        count = PER_MEMBER * len(members)
        shares = {
            member.id: sorted((PER_MEMBER * index + number + k) % count for k in range(PER_MEMBER))
            for index, member in enumerate(members)
        }
        begun = time.monotonic()
        self.apply(proxy, group, group, shares)
        wanted = [frozenset(numbers) for numbers in shares.values()]
        wait(lambda: [member.held for member in members] == wanted, f"plan {number}")
        return max(member.got for member in members) - begun


class BareMembers(threading.Thread):
    """A member of KIP-848 in each of many groups, which sends heartbeats and reads nothing."""

    def __init__(self, bootstrap, groups, topic):
        super().__init__(daemon=True)
        self.bootstrap, self.groups, self.topic = addresses(bootstrap), groups, topic
        self.epochs = {}
        self.start()

    def run(self):
        with suppress(ConnectionFailedError):  # the brokers end with the benchmark
            asyncio.run(self.beat())

    async def coordinator(self, connections, group):
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return await connections.coordinator(group)
            except ConnectionFailedError:  # the brokers make their topic for the first group
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.5)

    async def beat(self):
        connections = SharedConnections(self.bootstrap, ClientSecurity(), "bench")
        await asyncio.gather(
            *(self.live(connections, group, lane % LANES) for lane, group in enumerate(self.groups))
        )

    async def live(self, connections, group, lane):
        """Be the member of one group."""
        coordinator = None
        while True:
            if coordinator is None:
                await asyncio.sleep(0.1 + lane / LANES)
                address = await self.coordinator(connections, group)
                coordinator = await connections.to(address, lane)
            joins = group not in self.epochs
            answer = await coordinator.ask(
                ConsumerHeartbeatRequest(
                    group=group,
                    member_id="bare",
                    epoch=self.epochs.get(group, JOINING),
                    topics=(self.topic,) if joins else None,
                )
            )
            if answer.error == UNKNOWN_MEMBER_ID:  # while all groups join, the brokers are slow
                del self.epochs[group]
                continue
            if answer.error in ELSEWHERE:  # the brokers' topic has just been made
                coordinator = None
                continue
            assert answer.error == NO_ERROR, answer
            self.epochs[group] = answer.epoch
            await asyncio.sleep(answer.interval_ms / 1000)


def wait(condition, what, within=WAIT_SECONDS):
    until = time.monotonic() + within
    while not condition():
        if time.monotonic() > until:
            raise SystemExit(f"no {what}")
        time.sleep(0.02)


def measure_plans(bench):
    """Print how long plans take to reach the last member of a large group."""
    options, count = bench.options, bench.options.members
    partitions = PER_MEMBER * count
    bench.topic("large", partitions)
    proxy = bench.proxy(["large"])
    members = [bench.lead(proxy, "large", "large")]
    members += [
        bench.follower("large", "large", options.heartbeat) for _ in range(count - len(members))
    ]
    members[0].stop()  # it had the heartbeat of the preparation
    members[0] = bench.follower("large", "large", options.heartbeat)
    wait(lambda: all(member.held for member in members), "large group")
    wait(lambda: sum(len(member.held) for member in members) == partitions, "large group")
    delays = []
    for number in range(options.plans):
        delays.append(bench.reach(proxy, "large", members, number))
        time.sleep(1.5 + 0.037 * (number % 13))  # out of step with the heartbeats
    print(
        f"{options.protocol}, {count} members, heartbeats every {options.heartbeat} ms:"
        f" {quantiles(delays)} of {len(delays)} plans",
        flush=True,
    )
    proxy.stop()
    for member in members:
        member.stopping = True
    for member in members:
        member.join()


def measure_rest(bench):
    """Print the CPU that the proxy's thread takes while nothing happens."""
    options = bench.options
    groups = [f"rest-{number}" for number in range(options.groups)]
    bench.topic("rest", REST_PARTITIONS)
    proxy = bench.proxy(groups)
    members = {}
    if options.protocol == CONSUMER:
        bare = BareMembers(bench.bootstrap, groups, "rest")
        wait(lambda: len(bare.epochs) == len(groups), "members")
        for group in groups:
            bench.apply(proxy, group, "rest", {"bare": range(REST_PARTITIONS)})
        wait(lambda: set(map(bench.standings.get, groups)) == {"leading"}, "lead")
        time.sleep(MOST_BRISK_SECONDS)
    else:
        members = {group: bench.follower(group, "rest", DEFAULT_HEARTBEAT_MS) for group in groups}
        wait(lambda: all(member.held for member in members.values()), "members")
        for group in groups:
            bench.apply(proxy, group, "rest", {})
        wait(lambda: set(map(bench.standings.get, groups)) == {"waiting for the lead"}, "proxies")
    for _ in range(options.rounds if members else 0):
        followed = [group for group in groups if bench.standings[group] != "leading"]
        following = {
            group: bench.follower(group, "rest", DEFAULT_HEARTBEAT_MS) for group in followed
        }
        wait(lambda new=following: all(member.held for member in new.values()), "second members")
        for group in followed:
            members[group].stop()
        members |= following
        wait(
            lambda m=members: all(len(each.held) == REST_PARTITIONS for each in m.values()), "rest"
        )
    time.sleep(5)
    clock = time.pthread_getcpuclockid(proxy.thread_id)
    cpu, begun = time.clock_gettime(clock), time.monotonic()
    time.sleep(60 * options.minutes)
    used, lasted = time.clock_gettime(clock) - cpu, time.monotonic() - begun
    led = sum(bench.standings[group] == "leading" for group in groups)
    print(
        f"{len(groups)} groups at rest, {led} of them led: {100 * used / lasted:.2f} % of a core"
        f" over {lasted:.0f} s",
        flush=True,
    )
    proxy.stop()
    for member in members.values():
        member.stopping = True


def brokers(options, directory):
    """The brokers; those for KIP-848 with the jar, and with the heartbeats that are asked for."""
    if options.protocol != CONSUMER:
        return Cluster.start()
    heartbeat = str(options.heartbeat)
    settings = {
        "group.consumer.assignors": "uniform,levelwind.coordinator.PlannedAssignor",
        "group.consumer.min.heartbeat.interval.ms": heartbeat,
        "group.consumer.heartbeat.interval.ms": heartbeat if options.plans else "5000",
    }
    jar = assignor_jar.build(directory, assignor_jar.own_version())
    return Cluster.start(settings=settings, libraries=[jar])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--plans", type=int, default=40)
    parser.add_argument("--heartbeat", type=int, default=500, help="of the members, in ms")
    parser.add_argument("--protocol", default="range", help="or consumer, that of KIP-848")
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1, help="of members that follow on others")
    parser.add_argument("--minutes", type=float, default=1.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, brokers(options, Path(directory)) as cluster:
        bench = Bench(cluster.bootstrap, options)
        if options.plans:
            measure_plans(bench)
        if options.groups:
            measure_rest(bench)


if __name__ == "__main__":
    main()
