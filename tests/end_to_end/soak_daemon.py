"""A daemon and a standby under traffic for half an hour: flat memory, flat files, no bad line.

    python tests/end_to_end/soak_daemon.py [--minutes 30] [--topics 200] [--partitions 50]

One real broker with 10,000 partitions, a group that commits in all of them, a producer, two
consumers that follow plans, of which one is killed and started again every two minutes, the daemon
with its pipeline, and a standby. After a quarter of the time, at least two minutes, which count as
the warm-up, the daemon's own processes (not the JVM and its workers) must keep within
`MOST_RESIDENT_MB`, grow by no more than `MOST_GROWTH`, and hold no more files than before; and
every warning and error must be one that `EXPLAINED` explains. It ends with 1 otherwise.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from bench_rest import BROKER, HEAP, commit, create

from levelwind.deploy.cluster import Cluster
from levelwind_testing.processes.daemon_process import DaemonProcess
from levelwind_testing.processes.member_process import MemberProcess

MOST_RESIDENT_MB = 150.0
MOST_GROWTH = 0.05
"""Growth of the median resident memory from the first to the last third after the warm-up."""
MOST_MORE_FILES = 2
LOOK_SECONDS = 5.0
KILL_SECONDS = 120.0
RECORDS_A_SECOND = 200
EXPLAINED = {
    "member.evicted": "the consumer that is killed on purpose",
    "observer.tick_skipped": "the tick before took as long as its share of the CPU allows",
    "observer.follower_fetching_off": "one broker, without racks",
    "observer.racks_unknown": "one broker, without racks",
    "topics.drifted": "one broker cannot hold three replicas",
    "publisher.retrying": "the coordinator of transactions loads its state at the start",
    "partition.unsplittable": "the traffic is random",
    "group.overloaded": "the traffic is random",
}


class Traffic:
    """Records and commits over all topics, in the background."""

    def __init__(self, bootstrap: str, names: list[str], partitions: int) -> None:
        self.bootstrap, self.names, self.partitions = bootstrap, names, partitions
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=target, daemon=True) for target in (self.produce, self.commit)
        ]
        for thread in self.threads:
            thread.start()

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 100})
        drawn = random.Random(1)
        while not self.over.wait(0.1):
            for _ in range(RECORDS_A_SECOND // 10):
                name = drawn.choice(self.names)
                producer.produce(name, b"x" * 100, partition=drawn.randrange(self.partitions))
            producer.poll(0)

    def commit(self) -> None:
        drawn = random.Random(2)
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "group-0"}
            | {"enable.auto.commit": False}
        )
        offset = 0
        while not self.over.wait(1.0):
            offset += 1
            name = drawn.choice(self.names)
            try:
                consumer.commit(
                    offsets=[TopicPartition(name, n, offset) for n in range(self.partitions)],
                    asynchronous=False,
                )
            except KafkaException as error:
                print(f"traffic: {error}", flush=True)

    def stop(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(10)


def process_of(daemon: DaemonProcess) -> int:
    """The process that the guard of a daemon started."""
    guard = daemon.child.process.pid
    return int(Path(f"/proc/{guard}/task/{guard}/children").read_text().split()[0])


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=50)
    options = parser.parse_args()
    names = [f"topic-{number}" for number in range(options.topics)]
    with (
        Cluster.start(1, settings=BROKER, jvm_options=HEAP) as cluster,
        tempfile.TemporaryDirectory() as directory,
    ):
        bootstrap = cluster.bootstrap
        create(bootstrap, names, options.partitions)
        commit(bootstrap, "group-0", names, options.partitions)
        daemons = {"leader": DaemonProcess(bootstrap, Path(directory) / "one")}
        daemons["leader"].wait_for("lead", lambda: daemons["leader"].logged("daemon.leading"), 180)
        daemons["standby"] = DaemonProcess(bootstrap, Path(directory) / "two")
        traffic = Traffic(bootstrap, names, options.partitions)
        members = [member(bootstrap, names[0], f"m{n}") for n in range(2)]
        try:
            daemons["leader"].wait_for(
                "pipeline", lambda: daemons["leader"].logged("pipeline.caught_up"), 300
            )
            samples = sampled(daemons, members, bootstrap, names[0], 60 * options.minutes)
        finally:
            traffic.stop()
            for each in members:
                each.kill()
            for daemon in daemons.values():
                daemon.stop()
    return report(samples, daemons, 60 * options.minutes)


def member(bootstrap: str, topic: str, instance: str) -> MemberProcess:
    return MemberProcess(bootstrap, "levelwind.", "planned", topic, instance, 1.0)


Samples = dict[str, list[tuple[float, float, int]]]
"""Seconds, resident megabytes and open files, by the name of the daemon."""


def sampled(
    daemons: dict[str, DaemonProcess],
    members: list[MemberProcess],
    bootstrap: str,
    topic: str,
    seconds: float,
) -> Samples:
    pids = {name: process_of(daemon) for name, daemon in daemons.items()}
    samples: Samples = {name: [] for name in daemons}
    begun = time.monotonic()
    killed, looks = begun, 0
    while (now := time.monotonic()) - begun < seconds:
        if now - killed >= KILL_SECONDS:
            killed = now
            members.pop().kill()
            members.append(member(bootstrap, topic, "m1"))
        for name, pid in pids.items():
            samples[name].append((now - begun, resident_mb(pid), files(pid)))
        if looks % 12 == 0:
            last = {name: (round(s[-1][1]), s[-1][2]) for name, s in samples.items()}
            print(f"{now - begun:6.0f} s: MB resident and files {last}", flush=True)
        looks += 1
        time.sleep(LOOK_SECONDS)
    return samples


def report(samples: Samples, daemons: dict[str, DaemonProcess], seconds: float) -> int:
    kept = True
    warm_up = max(seconds / 4, 120.0)
    for name, all_samples in samples.items():
        warm = [sample for sample in all_samples if sample[0] >= warm_up]
        third = max(len(warm) // 3, 1)
        first, last = warm[:third], warm[-third:]
        before, after = (median(mb for _, mb, _ in part) for part in (first, last))
        opened, open_now = (max(count for _, _, count in part) for part in (first, last))
        most = max(mb for _, mb, _ in warm)
        print(
            f"{name}: at most {most:.0f} MB resident; median {before:.0f} MB, later {after:.0f} MB;"
            f" files {opened}, later {open_now}"
        )
        kept &= most <= MOST_RESIDENT_MB
        kept &= after <= before * (1 + MOST_GROWTH)
        kept &= open_now <= opened + MOST_MORE_FILES
    bad = Counter(
        (name, str(entry["event"]), str(entry.get("text", entry.get("error", "")))[:160])
        for name, daemon in daemons.items()
        for entry in daemon.events
        if entry.get("level") in {"warning", "error"}
    )
    for (name, event, text), count in sorted(bad.items()):
        explained = EXPLAINED.get(event) or (event == "library.log" and "retrying" in text)
        print(f"{name}: {count} x {event} {text} ({explained or 'UNEXPLAINED'})")
        kept &= bool(explained)
    failed = [entry for daemon in daemons.values() for entry in daemon.logged("daemon.failed")]
    print("kept" if kept and not failed else "BROKEN")
    return 0 if kept and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
