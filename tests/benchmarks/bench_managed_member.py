"""Cost of a managed consumer at rest: CPU of its process, and its requests to the brokers.

    python tests/benchmarks/bench_managed_member.py [--seconds 60] [--partitions 6] [--rate 0]

A process with one `ManagedConsumer` owns all partitions of a topic, polls as an application does,
and is left alone. Beside it the same process with a plain `confluent_kafka.Consumer` that assigns
the same partitions to itself. CPU is the process's user and system time; requests are those that
librdkafka's statistics count, by client and kind. With `--rate` records arrive meanwhile.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.clients.confluent import consumer
from levelwind.assignors.clients.confluent.following import announcer
from levelwind.assignors.clients.confluent.reading import assignments_reader
from levelwind.assignors.protocol.records import MemberAssignment, MemberRecord, decode, encode
from levelwind.assignors.protocol.topics import Topics, partition_for
from levelwind.clients.confluent import ManagedConsumer
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.deploy.cluster import Cluster

GROUP, TOPIC, TOPICS = "orders", "orders.placed", Topics("levelwind.")
WARM_UP_SECONDS = 10.0
STATISTICS_SECONDS = 5.0
GOALS = {"cpu_percent": 1.0, "requests_per_second": 1.0}


class CountedRequests:
    """Requests of the clients of one process, by client and kind, as their statistics say."""

    def __init__(self) -> None:
        self.requests: dict[str, Counter[str]] = {}

    def client(self, name: str, make: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
        """Make a client that reports its requests under `name`."""

        def report(statistics: str) -> None:
            counted: Counter[str] = Counter()
            for broker in json.loads(statistics)["brokers"].values():
                counted.update(broker["req"])
            self.requests[name] = counted

        def made(config: dict[str, Any]) -> Any:
            interval = int(STATISTICS_SECONDS * 1000)
            client = make({**config, "statistics.interval.ms": interval, "stats_cb": report})
            if make is AdminClient:
                threading.Thread(target=_serve, args=(client,), daemon=True).start()
            return client

        return made


def _serve(admin: Any) -> None:
    while True:
        admin.poll(STATISTICS_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each measurement")
    parser.add_argument("--partitions", type=int, default=6, help="partitions of the member")
    parser.add_argument("--rate", type=float, default=0.0, help="records a second")
    parser.add_argument("--member", nargs=2, metavar=("KIND", "BOOTSTRAP"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        run_member(*options.member, options.partitions, options.seconds)
        return
    quiet = SimpleNamespace(**dict.fromkeys(("info", "warning"), lambda *_, **__: None))
    with Cluster.start() as cluster:
        client = {"bootstrap.servers": cluster.bootstrap}
        ensure_topics(client, TOPICS, TopicSettings(), quiet)
        measure_all(cluster.bootstrap, options)


def measure_all(bootstrap: str, options: argparse.Namespace) -> None:
    make_topic(bootstrap, options.partitions)
    stopping = threading.Event()
    threads = [
        threading.Thread(target=plan, args=(bootstrap, options.partitions, stopping)),
        threading.Thread(
            target=produce, args=(bootstrap, options.partitions, options.rate, stopping)
        ),
    ]
    for thread in threads:
        thread.start()
    for kind in ("managed", "plain"):
        arguments = [f"--partitions={options.partitions}", f"--seconds={options.seconds}"]
        answer = subprocess.run(
            [sys.executable, str(Path(__file__)), *arguments, "--member", kind, bootstrap],
            capture_output=True,
            text=True,
            check=True,
        )
        show(kind, json.loads(answer.stdout))
    stopping.set()
    for thread in threads:
        thread.join()


def show(kind: str, measured: dict[str, Any]) -> None:
    print(f"{kind}: {measured['cpu_percent']:.2f} % of a core")
    others = 0.0
    for client, rates in measured["requests"].items():
        others += sum(rate for request, rate in rates.items() if request != "Fetch")
        shown = ", ".join(f"{request} {rate:.2f}" for request, rate in sorted(rates.items()))
        print(f"  {client}: {shown} a second")
    print(f"  beyond fetches: {others:.2f} requests/s")
    if kind == "managed":
        print(f"  goals: {GOALS['cpu_percent']} %, {GOALS['requests_per_second']} request/s")


def run_member(kind: str, bootstrap: str, partitions: int, seconds: float) -> None:
    """Poll for a while and print what it cost; the body of the measured process."""
    counted = CountedRequests()
    reader: Any = managed(bootstrap, counted) if kind == "managed" else plain(bootstrap, counted)
    if kind == "plain":
        reader.assign([TopicPartition(TOPIC, number) for number in range(partitions)])
    poll_until(reader, lambda: len(reader.assignment()) == partitions)
    poll_for(reader, WARM_UP_SECONDS)
    before, cpu, began = dict(counted.requests), time.process_time(), time.monotonic()
    poll_for(reader, seconds)
    took, used = time.monotonic() - began, time.process_time() - cpu
    print(
        json.dumps(
            {
                "cpu_percent": 100 * used / took,
                "requests": {
                    client: {kind: n / took for kind, n in (total - before[client]).items()}
                    for client, total in counted.requests.items()
                },
            }
        )
    )


def managed(bootstrap: str, counted: CountedRequests) -> ManagedConsumer:
    for module, name, label in (
        (consumer, "Consumer", "records"),
        (assignments_reader, "Consumer", "assignments"),
        (assignments_reader, "AdminClient", "stable offset"),
        (announcer, "Producer", "announcements"),
    ):
        setattr(module, name, counted.client(label, getattr(module, name)))
    return ManagedConsumer(
        {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"},
        group=GROUP,
        topics=[TOPIC],
        instance="member",
    )


def plain(bootstrap: str, counted: CountedRequests) -> Any:
    return counted.client("records", Consumer)(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    )


def poll_until(reader: Any, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the member got no partitions")
        reader.poll(0.1)


def poll_for(reader: Any, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        reader.poll(1.0)


def make_topic(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions, 3)])[TOPIC].result(30)


def produce(bootstrap: str, partitions: int, rate: float, stopping: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    number = 0
    while rate and not stopping.wait(1 / rate):
        producer.produce(TOPIC, value=b"x" * 100, partition=number % partitions)
        producer.poll(0)
        number += 1


def plan(bootstrap: str, partitions: int, stopping: threading.Event) -> None:
    """Give the whole topic to every member that joins: one owner at a time is enough here."""
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "planner", "auto.offset.reset": "earliest"}
    )
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)
    sizes = {
        name: len(metadata.topics[name].partitions) for name in (TOPICS.members, TOPICS.assignments)
    }
    reader.assign([TopicPartition(TOPICS.members, partition_for(GROUP, sizes[TOPICS.members]), 0)])
    producer = Producer({"bootstrap.servers": bootstrap})
    while not stopping.is_set():
        message = reader.poll(0.2)
        if message is None or message.error() is not None:
            continue
        member = decode("members", message.key(), message.value())
        if (
            not isinstance(member, MemberRecord)
            or member.state != "joining"
            or member.heartbeat > 1
        ):
            continue
        key, value = encode(
            MemberAssignment(
                group=GROUP,
                instance=member.instance,
                incarnation=member.incarnation,
                planner_epoch=1,
                group_epoch=1,
                member_epoch=1,
                state="active",
                assigned={TOPIC: tuple(range(partitions))},
                pending={},
                revoking={},
                rack=None,
                capacity=1.0,
                reason="benchmark",
            )
        )
        partition = partition_for(GROUP, sizes[TOPICS.assignments])
        producer.produce(TOPICS.assignments, key=key, value=value, partition=partition)
        producer.flush(10)
    reader.close()


if __name__ == "__main__":
    main()
