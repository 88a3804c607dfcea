"""Cost and delay of polled commits, beside those that are read from the offsets topic.

    python tests/benchmarks/bench_polling.py [--groups 2000] [--partitions 50] [--seconds 60]

One real broker; each group has committed all partitions of one topic. A process polls as the
leading daemon does, by the default settings. Meanwhile a share of the groups commits once a second.
CPU is that of the polling process; the delay is the time from a commit's acknowledgement to its
record in the topic of polled commits. A commit that the topic `__consumer_offsets` has is read from
there as fast as any record, which is the baseline.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    ConsumerGroupTopicPartitions,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.topics import OFFSETS_TOPIC, Topics
from levelwind.daemon.kafka.topic_setup import ensure_topics
from levelwind.daemon.kafka.topic_specs import TopicSettings
from levelwind.daemon.polling.commit_poller import CommitPoller, PollFigures
from levelwind.daemon.polling.commits_topic import CommitsTopic
from levelwind.daemon.polling.polled_records import read_key
from levelwind.daemon.polling.settings import CommitSettings
from levelwind.daemon.telemetry.unwritten_records import UnwrittenRecords
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.processes import processes
from levelwind_testing.quantiles import quantiles

TOPIC = "work"
TOPICS = Topics()
QUIET = SimpleNamespace(
    **dict.fromkeys(("debug", "info", "warning", "error"), lambda *_, **__: None)
)
"""A logger that says nothing."""
AHEAD = 50
"""Commits of groups that are under way together."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--busy", type=int, default=100, help="groups that commit each second")
    parser.add_argument("--poll", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.poll:
        poll(options.poll)
        return
    with Cluster.start(1) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap}
        admin = AdminClient(client)
        admin.create_topics([NewTopic(TOPIC, options.partitions, 1)])[TOPIC].result(30)
        ensure_topics(client, TOPICS, TopicSettings(), QUIET, polled=True)
        names = [f"group-{number:05}" for number in range(options.groups)]
        commit(admin, names, options.partitions, 0)
        print(
            f"{len(names)} groups with {options.partitions} partitions have committed", flush=True
        )
        measure(cluster.bootstrap, admin, names, options)


def poll(bootstrap: str) -> None:
    """Poll until standard input ends; print a line for each round."""
    client = {"bootstrap.servers": bootstrap}
    partitions = TopicSettings().partitions
    topic = CommitsTopic(client, TOPICS, partitions, UnwrittenRecords(QUIET), QUIET)

    def show(figures: PollFigures) -> None:
        print(json.dumps(asdict(figures)), flush=True)

    poller = CommitPoller(client, CommitSettings(), topic, show, QUIET)
    poller.start()
    sys.stdin.read()
    poller.stop()


def commit(admin: AdminClient, names: list[str], partitions: int, offset: int) -> float:
    """Commit an offset for all partitions of some groups; return when the last one was told."""
    for first in range(0, len(names), AHEAD):
        answers = [
            admin.alter_consumer_group_offsets(
                [
                    ConsumerGroupTopicPartitions(
                        name, [TopicPartition(TOPIC, n, offset) for n in range(partitions)]
                    )
                ]
            )[name]
            for name in names[first : first + AHEAD]
        ]
        for answer in answers:
            answer.result(60)
    return time.time()


class Arrivals:
    """When the newest record of each group arrived in a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
        self._reader = Consumer(config | {"fetch.wait.max.ms": 10})
        listed = self._reader.list_topics(topic, timeout=30).topics[topic].partitions
        self._reader.assign([TopicPartition(topic, number, OFFSET_END) for number in listed])
        self.at: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            for message in self._reader.consume(5000, 0.02):
                key = message.key()
                if message.error() is None and key is not None and key[:2] == b"\0\1":
                    self.at[read_key(key)[1]] = time.time()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._reader.close()


def measure(
    bootstrap: str, admin: AdminClient, names: list[str], options: argparse.Namespace
) -> None:
    command = [sys.executable, __file__, "--poll", bootstrap]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    rounds: list[dict[str, float]] = []

    def read() -> None:
        rounds.extend(
            {**json.loads(line), "at": time.time(), "cpu": cpu(child.pid)}
            for line in child.stdout or ()
        )

    threading.Thread(target=read, daemon=True).start()
    with closing(child.stdin), closing(Arrivals(bootstrap, TOPICS.commits)) as polled:
        while len(rounds) < 2:
            time.sleep(0.2)
        first = rounds[0]
        print(f"first round: {first['seconds']:.1f} s, {first['requests']:.0f} requests")
        at_rest = len(rounds)
        time.sleep(15)
        show("at rest", rounds[at_rest - 1 :])
        with closing(Arrivals(bootstrap, OFFSETS_TOPIC)) as baseline:
            busy = len(rounds)
            delays = commit_on(admin, names, options, polled, baseline)
            show(f"{options.busy} groups commit each second", rounds[busy:])
            for what, found in delays.items():
                print(f"  delay of {what}: {quantiles(found)}")
    child.wait(30)


def commit_on(
    admin: AdminClient,
    names: list[str],
    options: argparse.Namespace,
    polled: Arrivals,
    baseline: Arrivals,
) -> dict[str, list[float]]:
    until, offset = time.time() + options.seconds, 0
    delays: dict[str, list[float]] = {"polled commits": [], OFFSETS_TOPIC: []}
    committed: dict[str, float] = {}
    while time.time() < until:
        begun, offset = time.time(), offset + 1
        first = offset * options.busy % len(names)
        some = names[first : first + options.busy]
        committed |= dict.fromkeys(some, commit(admin, some, options.partitions, offset))
        for what, arrivals in zip(delays, (polled, baseline), strict=True):
            for name, at in committed.items():
                if (arrived := arrivals.at.get(name, 0.0)) > at - 0.5:
                    delays[what].append(max(arrived - at, 0.0))
                    del arrivals.at[name]
        time.sleep(max(0.0, 1 - (time.time() - begun)))
    return delays


def cpu(pid: int) -> float:
    tree = processes.usage(pid, lambda *_: "poller", stop="")
    return sum(used.cpu for used in tree.values())


def show(what: str, rounds: list[dict[str, float]]) -> None:
    begin, end = rounds[0], rounds[-1]
    seconds = end["at"] - begin["at"]
    requests = sum(one["requests"] for one in rounds[1:])
    share = (end["cpu"] - begin["cpu"]) / seconds
    print(
        f"{what}: a round each {seconds / (len(rounds) - 1):.2f} s,"
        f" {requests / seconds:.0f} requests/s, {share:.1%} of a core"
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
