"""Time from `levelwind run` to the first lag, and what takes it.

    python tests/benchmarks/bench_start.py [--groups 20] [--topics 100] [--partitions 50]
                                           [--runs 1] [--set NAME=VALUE]

One real broker. First a small cluster, where one group has committed in one topic, and no state:
from the start of the command to the group's first lag record. Then groups x topics x partitions
keys: the daemon is started once to write its checkpoint, stopped, and started again; from that
start to the lag of a commit that was made in between. Seconds depend on what else the machine does;
the CPU seconds of the daemon, its JVM and its Python workers hardly do.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from levelwind.assignors.protocol.records import LagRecord, decode
from levelwind.deploy.cluster import Cluster

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from levelwind_testing.kafka.plain_commits import commit_offsets
from levelwind_testing.processes import processes
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.offsets_writer import (
    OFFSETS_PARTITIONS,
    Load,
    OffsetsWriter,
)
from levelwind_testing.waiting import wait_until

SMALL = "small"
"""Name of the topic and of the group whose lag is waited for."""
PARTITIONS = 6
"""Partitions of that topic."""
TOPICS_PER_REQUEST = 20
WITHIN = 600.0
"""Seconds after which a start has failed."""
BROKER = {
    "num.io.threads": "2",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "log.index.size.max.bytes": "4096",
}
HEAP = ("-Xms256m", "-Xmx2g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--topics", type=int, default=100, help="0: the small cluster only")
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--runs", type=int, default=1, help="starts of each kind")
    parser.add_argument(
        "--set", action="append", default=[], help="a setting of the daemon, as in levelwind run"
    )
    options = parser.parse_args()
    with (
        Cluster.start(1, settings=BROKER, jvm_options=HEAP) as cluster,
        tempfile.TemporaryDirectory() as directory,
    ):
        create(cluster.bootstrap, {SMALL: PARTITIONS})
        committed = 1
        for run in range(options.runs):
            commit(cluster.bootstrap, committed)
            settings = (f"prefix=small-{run}.", *options.set)
            start = Start(cluster.bootstrap, Path(directory) / f"small-{run}", settings)
            start.show("small cluster, no state", committed)
            start.stop()
            committed += 1
        if options.topics:
            keys = options.groups * options.topics * options.partitions
            load = Load(keys, options.groups, options.topics, options.partitions)
            create(cluster.bootstrap, dict(load.topic_sizes))
            OffsetsWriter(cluster.bootstrap).backlog(load)
            state, settings = Path(directory) / "many", ("prefix=many.", *options.set)
            for run in range(options.runs + 1):
                commit(cluster.bootstrap, committed)
                start = Start(cluster.bootstrap, state, settings)
                begun = f"{load.keys:,} keys, {'a checkpoint' if run else 'no state'}"
                start.show(begun, committed)
                start.stop()
                committed += 1


def create(bootstrap: str, topics: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, partitions, 1) for name, partitions in topics.items()]
    for first in range(0, len(new), TOPICS_PER_REQUEST):
        some = new[first : first + TOPICS_PER_REQUEST]
        for future in admin.create_topics(some, request_timeout=120).values():
            future.result()


def commit(bootstrap: str, offset: int) -> None:
    """Commit an offset in each partition of the small topic."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": SMALL, "enable.auto.commit": False}
    )
    commit_offsets(
        consumer, [TopicPartition(SMALL, number, offset) for number in range(PARTITIONS)]
    )
    consumer.close()


class Start:
    """One start of the daemon, and its events with the seconds since then."""

    def __init__(self, bootstrap: str, state: Path, settings: Sequence[str]) -> None:
        state.mkdir(exist_ok=True)
        self._bootstrap = bootstrap
        self._lag = next(s for s in settings if s.startswith("prefix=")).split("=")[1] + "lag"
        self._before = processes.usage(stop="")
        self._begun = time.time()
        self._daemon = DaemonProcess(bootstrap, state, "log.level=debug", *settings)

    def show(self, name: str, offset: int) -> None:
        """Wait for the lag of a committed offset, and print what took the time."""
        self._await_lag(offset)
        seconds, used = time.time() - self._begun, processes.usage(stop="")
        cpu = processes.spent(self._before, used)
        print(f"{name}: first lag after {seconds:.1f} s, {cpu:.1f} s of CPU")
        by_name: dict[str, float] = {}
        for pid, process in used.items():
            before = self._before.get(pid)
            spent = process.cpu - (before.cpu if before else 0.0)
            if before is None or spent > 1:
                by_name[process.name] = by_name.get(process.name, 0.0) + spent
        print("    CPU: " + ", ".join(f"{n} {s:.1f} s" for n, s in sorted(by_name.items())))
        for event in self._daemon.logged("pipeline.started"):
            parts = ", ".join(f"{name} {event[name]} s" for name in ("imports", "spark", "query"))
            print(f"    query started after {event['seconds']} s of its process: {parts}")
        batches = self._daemon.wait_for(
            "a batch", lambda: self._daemon.logged("pipeline.batch"), WITHIN
        )
        for event in batches[:3]:
            took = {n: ms for n, ms in event["durations"].items() if ms}
            print(f"    batch {event['batch']}: {event['rows']:,} rows, ms: {took}")
        for event in self._daemon.logged("pipeline.failed"):
            print(f"    {event}")
        load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        print(f"    load of the machine: {load}", flush=True)

    def _await_lag(self, offset: int) -> None:
        reader = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "bench",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        reader_topics = wait_until("topic of lag", lambda: self._partitions(reader), WITHIN)
        reader.assign([TopicPartition(self._lag, number, 0) for number in range(reader_topics)])
        until = time.monotonic() + WITHIN
        while time.monotonic() < until:
            for message in reader.consume(1000, 0.05):
                if message.error() is None and message.value() is not None:
                    record = decode("lag", message.key(), message.value())
                    if (
                        isinstance(record, LagRecord)
                        and record.group == SMALL
                        and record.committed[0] == offset
                    ):
                        reader.close()
                        return
        sys.exit(f"no lag within {WITHIN:.0f} s: {self._daemon.tail()}")

    def _partitions(self, reader: Consumer) -> int:
        return len(reader.list_topics(timeout=10).topics.get(self._lag, _NONE).partitions)

    def stop(self) -> None:
        self._daemon.stop()


class _NoTopic:
    partitions: tuple[int, ...] = ()


_NONE = _NoTopic()


if __name__ == "__main__":
    main()
