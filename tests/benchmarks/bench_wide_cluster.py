"""A topic of 50,000 partitions on three real brokers: observed, lagging, planned, followed, shown.

    python tests/benchmarks/bench_wide_cluster.py [--partitions 50000] [--members 5]

The daemon with its pipeline under its default settings, one replica a partition, two records in
each. Group `readers` subscribes to nothing and has committed one record everywhere: its lag must be
that of every partition. Group `members` is managed: each partition must have one owner after every
plan. Seconds are those of the clock, with all of it on the same machine; CPU and memory are by
process, the brokers without theirs. A broker opens a file a partition: `ulimit -n` must allow it.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.page.api_client import ApiClient
from levelwind_testing.processes import processes
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.member_process import MemberProcess
from levelwind_testing.waiting import wait_until

TOPIC, READERS, MEMBERS = "wide", "readers", "members"
PREFIX = "levelwind."
MOST_CREATED = 9_999
"""Partitions that one request may ask the controller for: it writes no more than 10,000 records,
one of which is the topic's."""
COMMITTED_AT_ONCE = 2_000
WITHIN = 600.0
BROKER = {
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "6",
    "num.io.threads": "2",
}
HEAP = ("-Xms512m", "-Xmx2g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The heap of a broker of 17,000 partitions."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--members", type=int, default=5)
    options = parser.parse_args()
    with (
        Cluster.start(3, settings=BROKER, jvm_options=HEAP) as cluster,
        tempfile.TemporaryDirectory() as name,
    ):
        wide = WideTopic(cluster.bootstrap, options.partitions)
        with stage("the brokers create the topic"):
            wide.create()
        with stage("two records in each partition, one of them committed"):
            wide.fill()
        daemon = DaemonProcess(cluster.bootstrap, Path(name) / "state", "http.listen=127.0.0.1:0")
        try:
            follow(wide, daemon, options.members)
        finally:
            daemon.stop()


def follow(wide: "WideTopic", daemon: DaemonProcess, count: int) -> None:
    """Let the daemon measure the topic, and members follow its plans."""
    with stage("from the start of the daemon to the lag of all partitions", daemon):
        (listening,) = wait_until("address", lambda: daemon.logged("http.listening"), WITHIN)
        page = ApiClient(listening["url"])
        daemon.wait_for("lag", lambda: wide.lag(page, READERS) == wide.partitions, WITHIN)
    members: list[MemberProcess] = []
    try:
        with stage(f"{count} members join, until each partition has its owner", daemon):
            members += [wide.member(number) for number in range(count)]
            daemon.wait_for("owners", lambda: wide.is_owned(members), WITHIN)
        with stage("they have read everything", daemon):
            daemon.wait_for("lag of 0", lambda: wide.lag(page, MEMBERS) == 0, WITHIN)
        with stage("another one joins, until each partition has its owner", daemon):
            members.append(wide.member(count))
            daemon.wait_for("owners", lambda: wide.is_owned(members), WITHIN)
        with stage("one is killed, until each partition has its owner", daemon):
            members.pop(0).kill()
            daemon.wait_for("owners", lambda: wide.is_owned(members), WITHIN)
        for plan in daemon.logged("plan.published"):
            print(f"    plan: {plan['moved']:,} partitions moved because of {plan['cause']}")
        for path in ("/api/v1/groups", f"/api/v1/groups/{MEMBERS}", "/metrics"):
            begun = time.monotonic()
            size = len(page.get(path).body)
            print(f"    {path}: {size / 1e6:.2f} MB in {time.monotonic() - begun:.2f} s")
        faults = Counter(e["event"] for e in daemon.events if e["level"] in ("warning", "error"))
        print(f"    warnings and errors: {dict(faults) or 'none'}")
    finally:
        for member in members:
            member.stop()


@contextmanager
def stage(name: str, daemon: DaemonProcess | None = None) -> Iterator[None]:
    """Print how long a stage took, and what the daemon's processes used meanwhile."""
    begun, before = time.monotonic(), used_by(daemon)
    yield
    print(f"{name}: {time.monotonic() - begun:.1f} s", flush=True)
    after = used_by(daemon)
    for kind, cpu in processes.spent_by_name(before, after).items():
        memory = sum(used.memory for used in after.values() if used.name == kind) / 2**20
        print(f"    {kind}: {cpu:.1f} s of CPU, {memory:,.0f} MiB", flush=True)


def used_by(daemon: DaemonProcess | None) -> dict[int, processes.Used]:
    return processes.usage(daemon.child.process.pid, stop="") if daemon is not None else {}


class WideTopic:
    """The topic and its groups."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self.partitions = partitions
        self._bootstrap = bootstrap

    def create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        for number in [*range(MOST_CREATED, self.partitions, MOST_CREATED), self.partitions]:
            if number <= MOST_CREATED:
                done = admin.create_topics([NewTopic(TOPIC, number, 1)])
            else:
                more = [NewPartitions(TOPIC, number)]
                done = admin.create_partitions(more, request_timeout=WITHIN)
            done[TOPIC].result(WITHIN)
            wait_until("leaders", lambda known=number: self._led(admin) >= known, WITHIN)

    def _led(self, admin: AdminClient) -> int:
        layout = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions.values()
        return sum(partition.leader >= 0 for partition in layout)

    def fill(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 100})
        for _ in range(2):
            for number in range(self.partitions):
                while not self._produced(producer, number):
                    producer.poll(0.1)
        assert producer.flush(WITHIN) == 0
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": READERS})
        offsets = [TopicPartition(TOPIC, number, 1) for number in range(self.partitions)]
        for some in in_parts(offsets, COMMITTED_AT_ONCE):
            consumer.commit(offsets=some, asynchronous=False)
        consumer.close()

    def _produced(self, producer: Producer, partition: int) -> bool:
        try:
            producer.produce(TOPIC, value=b"r", partition=partition)
        except BufferError:
            return False
        return True

    def member(self, number: int) -> MemberProcess:
        return MemberProcess(self._bootstrap, PREFIX, MEMBERS, TOPIC, f"m{number}", 1.0)

    def is_owned(self, members: list[MemberProcess]) -> bool:
        """Whether each partition has exactly one owner, and each member some."""
        shares = [member.owned for member in members]
        owned = sum(map(len, shares))
        return all(shares) and owned == self.partitions == len(set().union(*shares))

    def lag(self, page: ApiClient, group: str) -> int | None:
        """Records behind of a group of which all is known."""
        listed: Any = page.document("/api/v1/groups")["groups"]
        for line in listed:
            if line["group"] == group and line["unknown"] == 0:
                lag: int | None = line["lag"]
                return lag if line["partitions"] == self.partitions else None
        return None


def in_parts(items: list[Any], size: int) -> Iterator[list[Any]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


if __name__ == "__main__":
    main()
